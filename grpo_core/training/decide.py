"""Columns of a rollout batch that follow from its rewards: parts, advantage, drop, update step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from grpo_core.config import RunConfig
from grpo_core.objective.aggregation import aggregation_weights
from grpo_core.objective.batch import step_totals
from grpo_core.objective.kl import kl_reward_penalty
from grpo_core.objective.presets import ResolvedLoss
from grpo_core.rewards import Verdict
from grpo_core.rewards.rows import Problem
from grpo_core.training.groups import assign_updates, by_group, decide_groups
from grpo_core.training.shaping import Completion, ShapedReward, shape_reward
from grpo_core.training.tensors import TrainRow, kl_weights, pad, row_masks
from grpo_core.types import FinishReason

TRUNCATED = "truncated"
MASKED = "masked"

Logprobs = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probs of a batch's rows, None for rows that are not scored.

    Args:
        keys: Row keys of the reference cache.
        old: Trainer's weights at rollout time, [T] a row.
        refs: Reference, [T] a row.
    """

    keys: list[str]
    old: list[Logprobs | None]
    refs: list[Logprobs | None]


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """Where in the run a rollout batch stands.

    Args:
        step: First optimiser step of the batch, from 1.
        beta: KL coefficient, for a KL penalty in the reward.
        ema_rewards: Running mean reward by data source.
        pieces: Text of each token of each row, where masks need it.
    """

    step: int
    beta: float
    ema_rewards: Mapping[str, float] = field(default_factory=dict)
    pieces: Sequence[tuple[str, ...]] | None = None


def decision_columns(
    config: RunConfig,
    loss: ResolvedLoss,
    columns: Mapping[str, list[Any]],
    verdicts: Sequence[Verdict],
    problems: Sequence[Problem],
    scores: Scores | None,
    facts: BatchFacts,
) -> dict[str, list[Any]]:
    """Reward parts, reward, advantage, drop reason, update step and token weight of each row.

    Args:
        config: The resolved configuration.
        loss: The resolved loss.
        columns: Completions of the batch, row-major.
        verdicts: One a row.
        problems: One a row.
        scores: Log-probs of every row, needed by a KL penalty in the reward.
        facts: Where in the run the batch stands.
    """
    shaped = _shape(config, columns, verdicts, problems)
    kl_parts = _kl_penalties(config, columns, scores, facts)
    rewards = [
        None if part.total is None else part.total - penalty
        for part, penalty in zip(shaped, kl_parts, strict=True)
    ]
    size = config.train.group_size
    decision = decide_groups(
        config,
        raw=by_group([verdict.reward_raw for verdict in verdicts], size),
        graded=by_group([part.graded for part in shaped], size),
        shaped=by_group(rewards, size),
        sources=[str(problem["source"]) for problem in problems[::size]],
        ema_rewards=facts.ema_rewards,
        confidence=by_group([verdict.confidence for verdict in verdicts], size),
    )
    result: dict[str, list[Any]] = {
        "reward_graded": [part.graded for part in shaped],
        "reward_base": [part.base for part in shaped],
        "reward_overlong": [part.overlong for part in shaped],
        "reward_repetition": [part.repetition for part in shaped],
        "reward_format": [part.format for part in shaped],
        "reward_language": [part.language for part in shaped],
        "reward_length": [part.length for part in shaped],
        "reward_kl": [-penalty for penalty in kl_parts],
        "reward": rewards,
        "advantage": decision.advantages.reshape(-1).tolist(),
    }
    return result | _use(config, loss, columns, facts, decision.drop_reasons)


def graded_rewards(
    config: RunConfig,
    columns: Mapping[str, list[Any]],
    verdicts: Sequence[Verdict],
    problems: Sequence[Problem],
) -> list[float | None]:
    """Rewards with process credit, as far as it is on, [N]."""
    return [part.graded for part in _shape(config, columns, verdicts, problems)]


def group_of_update(config: RunConfig, step: int, is_live: Sequence[bool], epoch: int) -> list[int]:
    """Mini-batch of each group in an epoch; epoch 0 is what the rollouts table records."""
    seed: tuple[str | int, ...] = (config.seed_of("train"), "minibatch", step)
    if epoch:
        seed = (*seed, epoch)
    return assign_updates(is_live, updates=config.train.updates_per_rollout, seed=seed)


def _shape(
    config: RunConfig,
    columns: Mapping[str, list[Any]],
    verdicts: Sequence[Verdict],
    problems: Sequence[Problem],
) -> list[ShapedReward]:
    return [
        shape_reward(
            config,
            verdict,
            Completion(text, token_ids, str(problem["text"]), problem["solution"]),
            max_completion_tokens=budget,
        )
        for verdict, text, token_ids, problem, budget in zip(
            verdicts,
            columns["text"],
            columns["completion_token_ids"],
            problems,
            columns["max_completion_tokens"],
            strict=True,
        )
    ]


def _kl_penalties(
    config: RunConfig,
    columns: Mapping[str, list[Any]],
    scores: Scores | None,
    facts: BatchFacts,
) -> list[float]:
    """What each reward loses to divergence from the reference; 0 unless kl.place is reward."""
    count = len(columns["text"])
    if config.kl.place != "reward" or scores is None:
        return [0.0] * count
    rows = mask_rows(columns, [None] * count, config.train.group_size, facts.pieces)
    masks = row_masks(rows, config)
    penalty = kl_reward_penalty(
        pad(scores.old, torch.float32),
        pad(scores.refs, torch.float32),
        masks.generated,
        kind=config.kl.kind,
        beta=facts.beta,
        token_weights=kl_weights(rows, masks, config),
    )
    return [float(value) for value in penalty]


def _use(
    config: RunConfig,
    loss: ResolvedLoss,
    columns: Mapping[str, list[Any]],
    facts: BatchFacts,
    drop_reasons: Sequence[str | None],
) -> dict[str, list[Any]]:
    """Drop reason, update step and mean token weight of each row, after the token masks."""
    size = config.train.group_size
    rows = mask_rows(columns, drop_reasons, size, facts.pieces)
    masks = row_masks(rows, config).completion_mask
    reasons = list(drop_reasons)
    for n, row in enumerate(rows):
        if row.is_live and not bool(masks[n].any()):
            is_cut = row.is_truncated and config.mask.truncated == "drop"
            reasons[n] = TRUNCATED if is_cut else MASKED
    updates = group_of_update(config, facts.step, live_group_flags(reasons, size), epoch=0)
    weights = _token_weights(config, loss, masks, updates)
    steps = [
        None if reason else facts.step + updates[n // size] for n, reason in enumerate(reasons)
    ]
    weights = [0.0 if reason else weights[n] for n, reason in enumerate(reasons)]
    return {"drop_reason": reasons, "update_step": steps, "loss_token_weight": weights}


def live_group_flags(drop_reasons: Sequence[str | None], group_size: int) -> list[bool]:
    """Whether any row of each group carries loss, [B]."""
    return [
        any(reason is None for reason in drop_reasons[start : start + group_size])
        for start in range(0, len(drop_reasons), group_size)
    ]


def _token_weights(
    config: RunConfig, loss: ResolvedLoss, masks: torch.Tensor, updates: Sequence[int]
) -> list[float]:
    """Mean weight of a live token of each row in the step that uses it, [N]."""
    size = config.train.group_size
    weights = [0.0] * masks.shape[0]
    for update in range(config.train.updates_per_rollout):
        members = [n for n in range(len(weights)) if updates[n // size] == update]
        groups = torch.tensor([n // size for n in members], dtype=torch.int64)
        totals = step_totals(masks[members], group_index=groups, sampled_rollouts=len(members))
        if not totals.live_tokens:
            continue
        spread = aggregation_weights(masks[members], totals, loss, groups)
        means = spread.sum(dim=1) / masks[members].sum(dim=1).clamp(min=1)
        for n, weight in zip(members, means.tolist(), strict=True):
            weights[n] = weight
    return weights


def mask_rows(
    columns: Mapping[str, list[Any]],
    drop_reasons: Sequence[str | None],
    group_size: int,
    pieces: Sequence[tuple[str, ...]] | None,
) -> list[TrainRow]:
    """Rows with just what the token masks read."""
    empty = np.empty(0, np.float32)
    return [
        TrainRow(
            prompt_token_ids=(),
            completion_token_ids=tuple(ids),
            temperature=1.0,
            is_truncated=reason == FinishReason.LENGTH,
            is_live=drop is None,
            group=n // group_size,
            advantage=0.0,
            old_logprobs=empty,
            sampling_logprobs=empty,
            ref_logprobs=None,
            pieces=pieces[n] if pieces is not None else None,
        )
        for n, (ids, reason, drop) in enumerate(
            zip(
                columns["completion_token_ids"],
                columns["finish_reason"],
                drop_reasons,
                strict=True,
            )
        )
    ]
