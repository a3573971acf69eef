"""Dynamic sampling: a rollout batch that is short of groups with signal draws further prompts.

Source: DAPO (arXiv 2503.14476, section 3.2), which samples on until the batch is full of groups
that are neither all right nor all wrong. Here each round draws as many prompts as are missing, so
none is thrown away; the groups without signal stay in the batch as dropped rows, and what they cost
is counted. The number of rounds is bounded (`filter.refill_rounds`, 0 is off).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.rewards import Verdict
from grpo_core.rewards.rows import Problem
from grpo_core.training.collect import Collector, Columns, PlannedGroup
from grpo_core.training.decide import graded_rewards
from grpo_core.training.groups import by_group, live_flags, trusted

REFILL = "refill"

DrawMore = Callable[[int, Collection[str], int], list[PlannedGroup]]
"""(number of prompts, prompts that the batch has, first group number) → further groups; fewer than
asked for when the bands have no more prompts."""


@dataclass(frozen=True, slots=True)
class SampledBatch:
    """A rollout batch before it is scored.

    Args:
        groups: Its groups, in order.
        completions: Columns of completions, row-major.
        verdicts: One a row.
    """

    groups: list[PlannedGroup]
    completions: Columns
    verdicts: list[Verdict]


def sample_batch(
    config: RunConfig,
    collector: Collector,
    groups: Sequence[PlannedGroup],
    draw_more: DrawMore,
    *,
    step: int,
) -> SampledBatch:
    """Sample and grade the groups, and further ones while too few carry signal.

    Args:
        config: Reads filter, reward and train.group_size.
        collector: Samples and grades.
        groups: What the batch begins with; as many groups with signal are wanted.
        draw_more: Further groups.
        step: First optimiser step of the batch.
    """
    batch = SampledBatch([], {}, [])
    wanted, new = len(groups), list(groups)
    for rounds in range(config.filter.refill_rounds + 1):
        batch = _joined(batch, new, *_sampled(collector, new, step))
        missing = wanted - sum(_live(config, batch))
        if not missing or rounds == config.filter.refill_rounds:
            break
        taken = {group.plan.prompt_id for group in batch.groups}
        new = draw_more(missing, taken, len(batch.groups))
        if not new:
            break
    return batch


def refill_events(
    config: RunConfig, rollouts: pa.Table, phase: int, step: int
) -> list[dict[str, Any]]:
    """The event of a batch that was refilled; none for another.

    Args:
        config: Reads train.
        rollouts: The batch, in row order.
        phase: Phase number.
        step: First optimiser step of the batch.
    """
    size, planned = config.train.group_size, config.train.prompts_per_rollout
    reasons = rollouts.column("drop_reason").to_pylist()
    live = [any(reason is None for reason in group) for group in by_group(reasons, size)]
    if len(live) <= planned:
        return []
    return [
        {
            "phase": phase,
            "step": step,
            "kind": REFILL,
            "before": float(sum(live[:planned])),
            "after": float(sum(live)),
            "reason": f"{len(live) - planned} further prompts were drawn: of the first {planned} "
            f"groups {sum(live[:planned])} carry signal, now {sum(live)}",
        }
    ]


def _sampled(
    collector: Collector, groups: Sequence[PlannedGroup], step: int
) -> tuple[Columns, list[Verdict]]:
    completions = collector.sample(groups, step=step)
    return completions, collector.grade(groups, completions)


def _joined(
    batch: SampledBatch,
    groups: Sequence[PlannedGroup],
    completions: Columns,
    verdicts: Sequence[Verdict],
) -> SampledBatch:
    columns = {name: batch.completions.get(name, []) + new for name, new in completions.items()}
    return SampledBatch([*batch.groups, *groups], columns, [*batch.verdicts, *verdicts])


def _live(config: RunConfig, batch: SampledBatch) -> list[bool]:
    """Whether each group carries signal, by the same rule that decides on drops."""
    size = config.train.group_size
    problems: list[Problem] = [g.problem for g in batch.groups for _ in range(size)]
    graded = graded_rewards(config, batch.completions, batch.verdicts, problems)
    raw = [verdict.reward_raw for verdict in batch.verdicts]
    confidence = by_group([verdict.confidence for verdict in batch.verdicts], size)
    return live_flags(
        config,
        raw=trusted(config, by_group(raw, size), confidence),
        graded=trusted(config, by_group(graded, size), confidence),
    )
