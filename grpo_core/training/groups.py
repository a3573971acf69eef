"""Groups of one rollout batch: which are live, their advantages, and the step that uses them.

Shapes: B groups, G rollouts a group, N = B * G rows, row-major.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from grpo_core.config import RunConfig
from grpo_core.objective.advantages import configured_advantages, live_groups
from grpo_core.objective.winsorise import running_means
from grpo_core.seeds import generator

T = TypeVar("T")

ZERO_VARIANCE = "zero_variance"
NULL_REWARD = "null_reward"
TOO_FEW_REWARDS = "too_few_rewards"
NO_CONFIDENCE = "no_confidence"


@dataclass(frozen=True)
class GroupDecision:
    """What the rewards of a batch lead to.

    Args:
        advantages: [B, G], fp64.
        drop_reasons: One a row, None for live rows, [N].
        is_live: One a group, [B].
        all_solved: Groups whose decided rollouts are all correct, [B].
        all_unsolved: Groups whose decided rollouts are all not correct, [B].
    """

    advantages: torch.Tensor
    drop_reasons: list[str | None]
    is_live: list[bool]
    all_solved: list[bool]
    all_unsolved: list[bool]


Rewards = Sequence[Sequence[float | None]]


def decide_groups(
    config: RunConfig,
    *,
    raw: Rewards,
    graded: Rewards,
    shaped: Rewards,
    sources: Sequence[str],
    ema_rewards: Mapping[str, float],
    confidence: Rewards | None = None,
) -> GroupDecision:
    """Advantages and drops; groups are formed before anything is dropped.

    Args:
        config: Reads advantage, loss, filter and `reward.confidence_weighting`.
        raw: Verdict rewards, [B, G].
        graded: With process credit, [B, G]; used when it is on.
        shaped: What advantages are computed from, [B, G].
        sources: Data source of each group, [B].
        ema_rewards: Running mean reward by source.
        confidence: Of the verdicts, [B, G]; null is 1. A rollout of confidence 0 leaves baseline
            and loss as one without a reward does.
    """
    raw_trusted = trusted(config, raw, confidence)
    decided = _decided(raw_trusted)
    enough = [len(group) >= 2 for group in decided]
    is_live = live_flags(config, raw=raw_trusted, graded=trusted(config, graded, confidence))
    weights = _weights(confidence, raw) if config.reward.confidence_weighting else None
    advantages = configured_advantages(
        shaped,
        config.advantage,
        config.loss,
        sources=sources,
        weights=weights,
        ema_baseline=running_means(ema_rewards, sources),
    )
    return GroupDecision(
        advantages=advantages.to(torch.float64),
        drop_reasons=[
            NO_CONFIDENCE
            if value is not None and kept is None
            else _drop_reason(kept, live=is_live[n], enough=enough[n])
            for n in range(len(raw))
            for value, kept in zip(raw[n], raw_trusted[n], strict=True)
        ],
        is_live=is_live,
        all_solved=[bool(group) and min(group) >= 1.0 for group in decided],
        all_unsolved=[bool(group) and max(group) < 1.0 for group in decided],
    )


def live_flags(config: RunConfig, *, raw: Rewards, graded: Rewards) -> list[bool]:
    """Whether each group carries loss: two decided rewards at least, and not all equal, [B].

    Args:
        config: Reads filter.
        raw: Verdict rewards, [B, G].
        graded: With process credit, [B, G].
    """
    keyed = graded if filter_key(config) == "graded" else raw
    has_signal = live_groups(keyed, tolerance=config.filter.tolerance).tolist()
    return [
        bool(len(group) >= 2 and (signal or not config.filter.zero_variance))
        for group, signal in zip(_decided(raw), has_signal, strict=True)
    ]


def filter_key(config: RunConfig) -> str:
    """The reward on which zero variance is tested: `raw` or `graded`."""
    key: str = config.filter.key
    if key == "auto":
        return "graded" if config.reward.process_credit else "raw"
    return key


def assign_updates(
    is_live: Sequence[bool], *, updates: int, seed: tuple[str | int, ...]
) -> list[int]:
    """Mini-batch 0 … updates - 1 of each group, [B]; live groups are spread evenly.

    Dropped groups are spread evenly too: they carry no term, but a constant-length loss counts
    their rollouts.
    """
    assignment = [0] * len(is_live)
    for flag in (True, False):
        groups = [n for n, live in enumerate(is_live) if live == flag]
        shuffled = generator(*seed, str(flag)).permutation(np.array(groups, dtype=np.int64))
        for position, group in enumerate(shuffled.tolist()):
            assignment[group] = position % updates
    return assignment


def by_group(values: Sequence[T], size: int) -> list[list[T]]:
    """Row-major values [N] as [B][G]."""
    return [list(values[start : start + size]) for start in range(0, len(values), size)]


def trusted(config: RunConfig, rewards: Rewards, confidence: Rewards | None) -> Rewards:
    """The rewards, [B, G]; null where confidence weighs and is 0.

    Args:
        config: Reads `reward.confidence_weighting`.
        rewards: [B, G].
        confidence: Of the verdicts, [B, G]; null is 1.
    """
    if confidence is None or not config.reward.confidence_weighting:
        return rewards
    return [
        [None if sure == 0 else value for value, sure in zip(group, row, strict=True)]
        for group, row in zip(rewards, confidence, strict=True)
    ]


def _weights(confidence: Rewards | None, raw: Rewards) -> torch.Tensor:
    """Weight of each rollout, fp64 [B, G]: its verdict's confidence, 1 where there is none."""
    known = confidence or [[None] * len(group) for group in raw]
    return torch.tensor(
        [[1.0 if value is None else value for value in group] for group in known],
        dtype=torch.float64,
    )


def _decided(raw: Rewards) -> list[list[float]]:
    return [[value for value in group if value is not None] for group in raw]


def _drop_reason(value: float | None, *, live: bool, enough: bool) -> str | None:
    if value is None:
        return NULL_REWARD
    if not enough:
        return TOO_FEW_REWARDS
    return None if live else ZERO_VARIANCE
