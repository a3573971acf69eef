"""Rewards before the group step: winsorising, and the running mean of each data source."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from grpo_core.errors import DataContractError


def winsorise(
    rewards: Tensor, *, low: float, high: float, sources: Sequence[str] | None = None
) -> Tensor:
    """Returns the step's rewards with extremes moved to quantiles of their data source, [B, G].

    Quantiles are those of linear interpolation, taken over the source's rewards that are not
    null; nulls stay null.

    Args:
        rewards: [B, G]; NaN is null.
        low: Quantile that lower rewards are raised to; 0: off.
        high: Quantile that higher rewards are cut to; 1: off.
        sources: Data source of each group, B names; unset: one source.
    """
    if low <= 0 and high >= 1:
        return rewards
    result = rewards.clone()
    for rows in _rows_by_source(rewards, sources).values():
        values = rewards[rows]
        known = values[~torch.isnan(values)]
        if known.numel():
            bounds = torch.quantile(known, torch.tensor([low, high], dtype=known.dtype))
            result[rows] = torch.where(
                torch.isnan(values), values, values.clamp(bounds[0], bounds[1])
            )
    return result


def running_means(state: Mapping[str, float], sources: Sequence[str]) -> Tensor:
    """Returns the running mean reward of each group's source, fp64 [B]; NaN when never seen."""
    means = [state.get(source, float("nan")) for source in sources]
    return torch.tensor(means, dtype=torch.float64)


def updated_means(
    state: Mapping[str, float], rewards: Tensor, sources: Sequence[str], *, decay: float
) -> dict[str, float]:
    """Returns the running means after a step: decay x before + (1 - decay) x the step's mean.

    A source's first step sets its mean. Called after the step's advantages are computed, so that
    the baseline never contains the rewards it is subtracted from.

    Args:
        state: Running mean of each source, before.
        rewards: [B, G]; NaN is null.
        sources: Data source of each group, B names.
        decay: Memory, in [0, 1).
    """
    after = dict(state)
    for source, rows in _rows_by_source(rewards, sources).items():
        mean = float(rewards[rows].to(torch.float64).nanmean())
        if mean == mean:  # all null leaves the mean as it was
            after[source] = decay * state[source] + (1 - decay) * mean if source in state else mean
    return after


def _rows_by_source(rewards: Tensor, sources: Sequence[str] | None) -> dict[str, list[int]]:
    names = [""] * rewards.shape[0] if sources is None else list(sources)
    if len(names) != rewards.shape[0]:
        raise DataContractError(f"sources: expected {rewards.shape[0]} names, got {len(names)}")
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows
