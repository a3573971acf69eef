"""Group-relative advantages.

Shapes: B prompts, G rollouts a group. Computed in fp64, returned in the dtype of the rewards.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_core.errors import ConfigError, DataContractError
from grpo_core.objective.batch import check_shape
from grpo_core.objective.config import AdvantageConfig, LossConfig
from grpo_core.objective.presets import resolve_std
from grpo_core.objective.winsorise import winsorise

Rewards = Tensor | Sequence[Sequence[float | None]]

_ROUNDING = 1e-9


def reward_tensor(rewards: Rewards) -> Tensor:
    """Returns rewards as a floating tensor [B, G], nulls as NaN.

    Raises:
        DataContractError: The rewards are not [B, G], a group has fewer than two rollouts, or a
            reward is infinite.
    """
    if isinstance(rewards, Tensor):
        tensor = rewards if rewards.is_floating_point() else rewards.to(torch.float32)
    else:
        rows = [[float("nan") if x is None else float(x) for x in row] for row in rewards]
        if len({len(row) for row in rows}) > 1:
            raise DataContractError("rewards: groups of different size")
        tensor = torch.tensor(rows, dtype=torch.float64)
    if tensor.dim() != 2:
        raise DataContractError(f"rewards: expected shape [B, G], got {list(tensor.shape)}")
    if tensor.shape[1] < 2:
        raise DataContractError(
            f"rewards: group_size must be at least 2, got {tensor.shape[1]}",
            "a group of one has no baseline; raise group_size",
        )
    if torch.isinf(tensor).any():
        raise DataContractError("rewards: infinite; a reward that is unknown is null (NaN)")
    return tensor


def live_groups(rewards: Rewards, *, tolerance: float = 0.0) -> Tensor:
    """Returns True for groups that carry signal, bool [B].

    A group is live when it has at least two rewards that are not null and their spread exceeds
    `tolerance`; by default any difference counts.

    Args:
        rewards: `filter.key` rewards [B, G], raw or graded, never shaped.
        tolerance: Largest spread of a group without signal, reward units.
    """
    values = reward_tensor(rewards)
    spread, count = _spread(values, ~torch.isnan(values))
    return (count >= 2) & (spread > tolerance)


def group_advantages(
    rewards: Rewards,
    *,
    std: str = "sample",
    eps: float = 1e-6,
    std_scope: str = "group",
    baseline: str | Tensor = "mean",
    clip: float | None = None,
    tolerance_band: float = 0.0,
    weights: Tensor | None = None,
    ema_baseline: Tensor | None = None,
    ema_weight: float = 0.0,
) -> Tensor:
    """Returns the advantage of each rollout, [B, G].

    ```
    A_i = w_i (r_i - b) / (s + eps)
    b   = sum_j w_j r_j / sum_j w_j               (mean; leave_one_out: over j != i)
    s^2 = sum_j w_j (r_j - m)^2 / (W - sum_j w_j^2 / W)   sample     (W = sum_j w_j, m the mean)
    s^2 = sum_j w_j (r_j - m)^2 / W                       population
    ```

    With weights of 1 these are the plain mean and standard deviations (ddof 1 and 0) of GRPO
    (arXiv 2402.03300). Null rewards are outside baseline and deviation and get 0, as does every
    rollout of a group with fewer than two rewards.

    A spread up to 1e-9 is rounding noise. A group without a larger one gets exactly 0 where the
    baseline is its own mean, or the divisor its own deviation; with a share of `ema_baseline`, or
    an external baseline, and `std` none it keeps r - b. Nor is anything divided by the deviation
    of a batch without spread: 0.

    Args:
        rewards: [B, G]; NaN or None is null.
        std: `sample`, `population` or `none`.
        eps: Added to the deviation, reward units.
        std_scope: `group`, or `batch` for one deviation over all rewards.
        baseline: `mean`, `leave_one_out`, or a value estimate [B, G].
        clip: Bound on |advantage|; None: off.
        tolerance_band: Rewards up to this far below the baseline get 0; reward units.
        weights: Confidence in each reward, >= 0, [B, G]; 0 acts like a null reward.
        ema_baseline: Running mean reward of each group's data source, [B].
        ema_weight: Share of `ema_baseline` in the baseline.

    Raises:
        DataContractError: Shapes, a group size below 2, infinite rewards, negative weights.
        ConfigError: An unknown name.
    """
    source = reward_tensor(rewards)
    values, valid, weight = _weighted(source, weights)
    mean = _weighted_mean(values, weight)
    centred = values - _baseline(values, valid, weight, mean, baseline, ema_baseline, ema_weight)
    if tolerance_band > 0:
        centred = torch.where((centred < 0) & (centred >= -tolerance_band), 0.0, centred)
    spread, count = _spread(values, valid)
    advantages = weight * centred
    if std != "none":
        advantages = advantages / (_deviation(values, weight, mean, std, std_scope) + eps)
    has_own = _has_own_baseline(spread, baseline, ema_baseline, ema_weight)
    is_zero = (spread <= _ROUNDING) & (has_own | (std != "none" and std_scope == "group"))
    if std != "none" and std_scope == "batch":
        is_zero = is_zero | (_spread(values.reshape(1, -1), valid.reshape(1, -1))[0] <= _ROUNDING)
    is_out = is_zero.unsqueeze(1) | (count < 2).unsqueeze(1) | ~valid
    advantages = torch.where(is_out, 0.0, advantages)
    if clip is not None:
        advantages = advantages.clamp(-clip, clip)
    return advantages.to(source.dtype)


def configured_advantages(
    rewards: Rewards,
    config: AdvantageConfig,
    loss: LossConfig,
    *,
    sources: Sequence[str] | None = None,
    weights: Tensor | None = None,
    baseline: Tensor | None = None,
    ema_baseline: Tensor | None = None,
) -> Tensor:
    """Returns the advantages of a step's rewards under a run's configuration, [B, G].

    Args:
        rewards: Shaped rewards of the whole step, [B, G]; NaN or None is null.
        config: Advantage section.
        loss: Loss section; its preset gives the divisor where `advantage.std` is unset.
        sources: Data source of each group, for winsorising; unset: one source.
        weights: Confidence in each reward, [B, G].
        baseline: External value estimate, [B, G]; replaces the configured baseline.
        ema_baseline: Running mean reward of each group's source, [B].
    """
    values = winsorise(
        reward_tensor(rewards),
        low=config.winsorise_low,
        high=config.winsorise_high,
        sources=sources,
    )
    return group_advantages(
        values,
        std=resolve_std(config, loss),
        eps=config.eps,
        std_scope=config.std_scope,
        baseline=config.baseline if baseline is None else baseline,
        clip=config.clip,
        tolerance_band=config.tolerance_band,
        weights=weights,
        ema_baseline=ema_baseline,
        ema_weight=config.ema_weight if ema_baseline is not None else 0.0,
    )


def _weighted(source: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Returns rewards (nulls as 0), which of them count, and their weights, fp64 [B, G]."""
    valid = ~torch.isnan(source)
    weight = torch.ones_like(source, dtype=torch.float64)
    if weights is not None:
        check_shape("weights", weights, tuple(source.shape))
        weight = weights.to(torch.float64)
        if not bool((weight >= 0).all()):
            raise DataContractError("weights: expected numbers >= 0")
        valid = valid & (weight > 0)
    return (
        torch.where(valid, source, 0.0).to(torch.float64),
        valid,
        torch.where(valid, weight, 0.0),
    )


def _spread(values: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Returns max - min and the count over rewards that are not null, [B]."""
    high = torch.where(valid, values, -torch.inf).amax(dim=1)
    low = torch.where(valid, values, torch.inf).amin(dim=1)
    count = valid.sum(dim=1)
    return torch.where(count > 0, high - low, 0.0), count


def _weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    total = weight.sum(dim=1, keepdim=True)
    return (weight * values).sum(dim=1, keepdim=True) / torch.where(total > 0, total, 1.0)


def _baseline(
    values: Tensor,
    valid: Tensor,
    weight: Tensor,
    mean: Tensor,
    baseline: str | Tensor,
    ema_baseline: Tensor | None,
    ema_weight: float,
) -> Tensor:
    if isinstance(baseline, Tensor):
        check_shape("baseline", baseline, tuple(values.shape))
        chosen = torch.where(valid, baseline.to(torch.float64), 0.0)
    elif baseline == "mean":
        chosen = mean
    elif baseline == "leave_one_out":
        others = weight.sum(dim=1, keepdim=True) - weight
        sums = (weight * values).sum(dim=1, keepdim=True) - weight * values
        chosen = sums / torch.where(others > 0, others, 1.0)
    else:
        raise ConfigError(f"baseline: expected mean, leave_one_out or a tensor, got {baseline!r}")
    if ema_weight == 0:
        return chosen
    if ema_baseline is None:
        raise ConfigError("ema_weight needs ema_baseline, the running mean of each group's source")
    check_shape("ema_baseline", ema_baseline, (values.shape[0],))
    running = ema_baseline.to(torch.float64).unsqueeze(1)
    # A source that was never seen has no running mean yet (NaN): its groups keep their own.
    running = torch.where(torch.isnan(running), chosen, running)
    return (1.0 - ema_weight) * chosen + ema_weight * running


def _has_own_baseline(
    spread: Tensor, baseline: str | Tensor, ema_baseline: Tensor | None, ema_weight: float
) -> Tensor:
    """Returns whether each group's baseline is made of its own rewards alone, bool [B]."""
    if isinstance(baseline, Tensor):
        return torch.zeros_like(spread, dtype=torch.bool)
    if ema_weight == 0 or ema_baseline is None:
        return torch.ones_like(spread, dtype=torch.bool)
    return torch.isnan(ema_baseline)


def _deviation(values: Tensor, weight: Tensor, mean: Tensor, std: str, scope: str) -> Tensor:
    if scope == "batch":
        flat_values, flat_weight = values.reshape(1, -1), weight.reshape(1, -1)
        flat_mean = _weighted_mean(flat_values, flat_weight)
        return _deviation(flat_values, flat_weight, flat_mean, std, "group")
    if scope != "group":
        raise ConfigError(f"std_scope: expected group or batch, got {scope!r}")
    total = weight.sum(dim=1, keepdim=True)
    squares = (weight * (values - mean).square()).sum(dim=1, keepdim=True)
    safe_total = torch.where(total > 0, total, 1.0)
    if std == "population":
        freedom = safe_total
    elif std == "sample":
        freedom = safe_total - weight.square().sum(dim=1, keepdim=True) / safe_total
    else:
        raise ConfigError(f"std: expected sample, population or none, got {std!r}")
    return (squares / torch.where(freedom > 0, freedom, 1.0)).sqrt()
