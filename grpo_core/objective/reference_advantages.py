"""The fp64 definition of a configured advantage, written with loops and plain numbers.

Nothing here is shared with `advantages`: it is what that one is checked against. A reward that is
None is null: outside baseline and deviation, its advantage 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor

from grpo_core.objective.config import AdvantageConfig, Std

Rewards = list[list[float | None]]

_FLAT = 1e-9


@dataclass(frozen=True)
class RewardedStep:
    """The rewards of a step.

    Attributes:
        rewards: [B][G], None is null.
        sources: Data source of each group, [B].
        weights: Confidence in each reward, [B][G]; 0 acts like a null reward.
        running_means: Mean reward of each source before this step.
    """

    rewards: Rewards
    sources: list[str]
    weights: list[list[float]]
    running_means: dict[str, float]


def reference_advantages(
    step: RewardedStep, config: AdvantageConfig, std: Std
) -> list[list[float]]:
    """Returns w_i (R_i - b) / (s + eps) of each rollout, [B][G], each factor as it is defined."""
    rewards = winsorised(step, config)
    everything = [pair for g in range(len(rewards)) for pair in _counted(step, rewards, g)]
    result = []
    for g, group in enumerate(rewards):
        pairs = _counted(step, rewards, g)
        values = [r for r, _ in pairs]
        spread = everything if config.std_scope == "batch" else pairs
        own = config.ema_weight == 0 or step.sources[g] not in step.running_means
        if len(values) < 2 or (own and _is_flat(pairs)) or (std != "none" and _is_flat(spread)):
            result.append([0.0] * len(group))
            continue
        divisor = 1.0 if std == "none" else deviation(spread, std) + config.eps
        row = []
        for i, reward in enumerate(group):
            weight = step.weights[g][i]
            if reward is None or weight == 0:
                row.append(0.0)
                continue
            centred = reward - baseline(step, rewards, g, i, config)
            if -config.tolerance_band <= centred < 0:
                centred = 0.0
            row.append(_bounded(weight * centred / divisor, config.clip))
        result.append(row)
    return result


def baseline(
    step: RewardedStep, rewards: Rewards, g: int, i: int, config: AdvantageConfig
) -> float:
    """Returns (1 - w) x the group's mean (of the others: leave one out) + w x running mean."""
    is_out = config.baseline == "leave_one_out"
    pairs = list(_others(step, rewards, g, i)) if is_out else _counted(step, rewards, g)
    own = sum(w * r for r, w in pairs) / sum(w for _, w in pairs)
    running = step.running_means.get(step.sources[g], own)
    return (1.0 - config.ema_weight) * own + config.ema_weight * running


def deviation(pairs: list[tuple[float, float]], std: Std) -> float:
    """Returns sqrt(sum w (r - m)^2 / f); f is W, or W - sum w^2 / W for the sample's."""
    total = sum(w for _, w in pairs)
    mean = sum(w * r for r, w in pairs) / total
    squares = sum(w * (r - mean) ** 2 for r, w in pairs)
    lost = sum(w * w for _, w in pairs) / total if std == "sample" else 0.0
    return float((squares / (total - lost)) ** 0.5)


def winsorised(step: RewardedStep, config: AdvantageConfig) -> Rewards:
    """Returns the rewards moved to the quantiles of their source, by linear interpolation."""
    result: Rewards = []
    for g, group in enumerate(step.rewards):
        known = sorted(
            r
            for rewards, source in zip(step.rewards, step.sources, strict=True)
            for r in rewards
            if source == step.sources[g] and r is not None
        )
        if not known:
            result.append(list(group))
            continue
        low = quantile(known, config.winsorise_low)
        high = quantile(known, config.winsorise_high)
        result.append([None if r is None else min(max(r, low), high) for r in group])
    return result


def quantile(ascending: list[float], share: float) -> float:
    """Returns the value at a share of the way from the first to the last."""
    position = share * (len(ascending) - 1)
    below = min(floor(position), len(ascending) - 1)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (position - below) * (ascending[above] - ascending[below])


def _counted(step: RewardedStep, rewards: Rewards, g: int) -> list[tuple[float, float]]:
    """Reward and weight of the rollouts of a group that count."""
    return list(_others(step, rewards, g, -1))


def _others(step: RewardedStep, rewards: Rewards, g: int, i: int) -> Iterator[tuple[float, float]]:
    for j, (reward, weight) in enumerate(zip(rewards[g], step.weights[g], strict=True)):
        if j != i and reward is not None and weight > 0:
            yield reward, weight


def _is_flat(pairs: list[tuple[float, float]]) -> bool:
    values = [r for r, _ in pairs]
    return max(values) - min(values) <= _FLAT


def _bounded(value: float, bound: float | None) -> float:
    return value if bound is None else min(max(value, -bound), bound)
