"""Rows of the `steps` table: rollout metrics of a batch and update metrics of each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.rewards import Label
from grpo_core.training.updates import UpdateResult
from grpo_core.types import FinishReason

SAMPLED = "sampled"
"""Origin of rollouts that training itself sampled."""

_UPDATE_METRICS = (
    "loss",
    "policy_loss",
    "kl_loss",
    "clip_fraction",
    "clip_fraction_low",
    "clip_fraction_high",
    "importance_ratio_mean",
    "importance_ratio_max",
    "clip_fraction_dual",
    "clip_fraction_positive",
    "clip_fraction_negative",
    "importance_ratio_min",
    "ess",
    "old_kl_k3",
    "sampler_ess",
    "sampler_kl_k3",
    "sampler_missing_token_fraction",
    "corrected_away_token_fraction",
    "advantage_token_fraction",
    "tail_token_fraction",
    "policy_entropy_nats",
    "sampling_entropy_nats",
)


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a steps row says besides rollouts and update.

    Args:
        phase: Phase number.
        step: Optimiser step in the run, from 1.
        rollout_batch: Batch within the phase, from 0.
        max_completion_tokens: Budget of the phase.
        beta: KL coefficient.
        is_first_of_batch: The first step of its rollout batch carries the generated tokens.
        ref_cache_hit_rate: Share of the step's reference rows that were not scored for it, or None.
        validation_pass_at_1: When validated after this step.
    """

    phase: int
    step: int
    rollout_batch: int
    max_completion_tokens: int
    beta: float
    is_first_of_batch: bool
    ref_cache_hit_rate: float | None
    validation_pass_at_1: float | None


def rollout_metrics(rollouts: pa.Table, group_size: int, filter_key: str) -> dict[str, float]:
    """Metrics of a whole rollout batch, equal on each of its steps.

    Args:
        rollouts: The batch, in row order.
        group_size: G.
        filter_key: `raw` or `graded`: the reward on which zero variance is tested.
    """
    raw = rollouts.column("reward_raw").to_pylist()
    passed = [
        None if reward is None else float(label == Label.CORRECT)
        for reward, label in zip(raw, rollouts.column("label").to_pylist(), strict=True)
    ]
    decided = _decided_groups(passed, group_size)
    keyed = _decided_groups(rollouts.column(f"reward_{filter_key}").to_pylist(), group_size)
    equal = [bool(group) and min(group) == max(group) for group in keyed]
    tokens = rollouts.column("num_completion_tokens")
    truncated = pc.equal(rollouts.column("finish_reason"), FinishReason.LENGTH.value)
    return {
        "reward_mean": _mean(rollouts.column("reward").to_pylist()),
        "reward_raw_mean": _mean(raw),
        "zero_variance_fraction": sum(equal) / len(equal),
        "solved_group_fraction": _share(decided, equal, solved=True),
        "unsolved_group_fraction": _share(decided, equal, solved=False),
        "truncation_rate": float(pc.mean(truncated.cast(pa.float64())).as_py()),
        "completion_tokens_mean": float(pc.mean(tokens).as_py()),
        "temperature": float(pc.mean(rollouts.column("temperature")).as_py()),
    }


def pass_rate(rollouts: pa.Table) -> float:
    """Correct rollouts / decided ones, whatever the reward; 0 when none is decided."""
    decided = rollouts.num_rows - rollouts.column("reward_raw").null_count
    correct = pc.sum(pc.equal(rollouts.column("label"), Label.CORRECT.value)).as_py() or 0
    return float(correct / decided) if decided else 0.0


def step_row(
    facts: StepFacts, batch: Mapping[str, float], rollouts: pa.Table, update: UpdateResult
) -> dict[str, Any]:
    """One row of `steps`; what is computed over live tokens is null where there were none."""
    is_sampled = pc.equal(rollouts.column("origin"), SAMPLED)
    generated = pc.sum(rollouts.filter(is_sampled).column("num_completion_tokens")).as_py() or 0
    metrics = update.metrics
    return {
        **batch,
        **{name: None if update.is_empty else metrics[name] for name in _UPDATE_METRICS},
        "ref_kl_k1": metrics.get("ref_kl_k1"),
        "ref_kl_k3": metrics.get("ref_kl_k3"),
        "phase": facts.phase,
        "step": facts.step,
        "rollout_batch": facts.rollout_batch,
        "max_completion_tokens": facts.max_completion_tokens,
        "beta": facts.beta,
        "learning_rate": update.learning_rate,
        "grad_norm": update.grad_norm,
        "num_rollouts": rollouts.num_rows,
        "num_live_rollouts": rollouts.column("drop_reason").null_count,
        "num_generated_tokens": generated if facts.is_first_of_batch else 0,
        "num_live_tokens": int(metrics.get("live_tokens", 0)),
        "effective_token_fraction": metrics.get("effective_token_fraction", 0.0),
        "ref_cache_hit_rate": facts.ref_cache_hit_rate,
        "validation_pass_at_1": facts.validation_pass_at_1,
    }


def _decided_groups(values: Sequence[float | None], group_size: int) -> list[list[float]]:
    """Values of each group that are not null."""
    return [
        [value for value in values[start : start + group_size] if value is not None]
        for start in range(0, len(values), group_size)
    ]


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _share(groups: Sequence[Sequence[float]], equal: Sequence[bool], *, solved: bool) -> float:
    """Share of groups that are all right (solved) or all wrong."""
    matching = [
        flat and bool(group) and (min(group) >= 1.0) == solved
        for group, flat in zip(groups, equal, strict=True)
    ]
    return sum(matching) / len(groups)
