"""Alerts: a training figure that left its healthy range, told while there is time to act."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.config.training import AlertsConfig


@dataclass(frozen=True, slots=True)
class Alert:
    """One figure out of range.

    Args:
        kind: `entropy` or `kl`.
        step: Optimiser step of the run.
        value: Nats per token.
        threshold: The configured bound that it crossed.
    """

    kind: str
    step: int
    value: float
    threshold: float


def step_alerts(steps: Sequence[Mapping[str, Any]], limits: AlertsConfig) -> Iterator[Alert]:
    """The first alert of each kind among the steps of one rollout batch.

    Args:
        steps: Rows of the table `steps`.
        limits: The thresholds; 0 is off.
    """
    lowest, highest = limits.entropy_below_nats, limits.kl_above_nats
    entropies = [(row["step"], row["policy_entropy_nats"]) for row in steps]
    divergences = [(row["step"], row["ref_kl_k3"]) for row in steps]
    low = [(step, value) for step, value in entropies if value is not None and value < lowest]
    high = [(step, value) for step, value in divergences if value is not None and value > highest]
    if low:
        yield Alert("entropy", *low[0], threshold=lowest)
    if high and highest > 0:
        yield Alert("kl", *high[0], threshold=highest)
