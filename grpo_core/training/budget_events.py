"""What the controller of beta did, as rows of `events`."""

from typing import Any

from grpo_core.objective.config import KlConfig
from grpo_core.objective.kl_control import KlControl

KL_BUDGET = "kl_budget"


def budget_events(
    config: KlConfig, before: KlControl, after: KlControl, *, phase: int, step: int
) -> list[dict[str, Any]]:
    """The event of a step after which the budget moved beta; none for another, or without a budget.

    Args:
        config: KL section.
        before: Control before the step's divergence was taken into account.
        after: Control for the next step.
        phase: Phase number.
        step: Optimiser step of the run.
    """
    if config.budget.nats is None or after.beta == before.beta:
        return []
    side = "over" if after.beta > before.beta else "under half of"
    return [
        {
            "phase": phase,
            "step": step,
            "kind": KL_BUDGET,
            "before": before.beta,
            "after": after.beta,
            "reason": f"the running mean of ref_kl_k3, {after.ema:.3g} nats a token, is {side} "
            f"what the budget of {config.budget.nats:g} nats allows by this step",
        }
    ]
