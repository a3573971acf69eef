"""Beta over a run: a schedule, or a budget of divergence; imports no torch."""

from dataclasses import dataclass

from grpo_core.objective.config import KlConfig


@dataclass(frozen=True)
class KlControl:
    """State of the budget controller, saved with every checkpoint.

    Attributes:
        beta: Coefficient for the next step; per nat.
        ema: Running mean of `ref_kl_k3`, nats per token; None before the first step.
    """

    beta: float
    ema: float | None = None


def scheduled_beta(config: KlConfig, progress: float) -> float:
    """Returns beta at a share of the run: constant, then linear to `relax_factor` x beta.

    Args:
        config: KL section.
        progress: Step / sum of max_steps over phases, in [0, 1].
    """
    if progress <= config.relax_start or config.relax_start >= 1:
        return config.beta
    share = (min(progress, 1.0) - config.relax_start) / (1.0 - config.relax_start)
    return config.beta * (1.0 + share * (config.relax_factor - 1.0))


def start_control(config: KlConfig) -> KlControl:
    """Returns the controller's state before the first step."""
    return KlControl(beta=config.beta)


def resumed_control(state: KlControl, config: KlConfig, *, progress: float) -> KlControl:
    """Returns a saved state under the configuration that goes on with it.

    Without a budget beta follows from the progress alone, so a fork with another beta or length has
    its own from its first step on. With one, beta goes on where it was, within the bounds; a parent
    without a KL term (beta 0) starts the budget at `beta`.

    Args:
        state: As it was saved.
        config: KL section of the run that goes on.
        progress: Share of the run that is done, in [0, 1].
    """
    if config.budget.nats is None:
        return KlControl(beta=scheduled_beta(config, progress), ema=state.ema)
    beta = state.beta if state.beta > 0 else config.beta
    bounded = min(max(beta, config.budget.beta_min), config.budget.beta_max)
    return KlControl(beta=bounded, ema=state.ema)


def next_control(
    state: KlControl, config: KlConfig, *, ref_kl_k3: float | None, progress: float
) -> KlControl:
    """Returns the controller's state after a step.

    The budget is spent linearly: its schedule is `budget.nats` x progress. A running mean over
    schedule multiplies beta by `budget.factor`, one under half the schedule divides it, within
    [beta_min, beta_max]. Without a budget beta follows `scheduled_beta`.

    Args:
        state: Before the step.
        config: KL section.
        ref_kl_k3: Of the step, nats per token; None where nothing was measured (a step without a
            live token): the schedule goes on, the budget waits.
        progress: Share of the run after the step, in [0, 1].
    """
    budget = config.budget
    ema = ref_kl_k3 if ref_kl_k3 is not None else state.ema
    if state.ema is not None and ref_kl_k3 is not None:
        ema = budget.ema_decay * state.ema + (1.0 - budget.ema_decay) * ref_kl_k3
    if budget.nats is None:
        return KlControl(beta=scheduled_beta(config, progress), ema=ema)
    if ref_kl_k3 is None or ema is None:
        return state
    schedule = budget.nats * progress
    beta = state.beta
    if ema > schedule:
        beta = min(beta * budget.factor, budget.beta_max)
    elif ema < 0.5 * schedule:
        beta = max(beta / budget.factor, budget.beta_min)
    return KlControl(beta=beta, ema=ema)
