"""Sampling and grading of problem sets in resumable units, for prefilter and evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from grpo_core.models.context import check_prompts
from grpo_core.models.render import PromptRenderer
from grpo_core.policy.runtime import completion_columns, load_runtime, sample_request
from grpo_core.rewards.rows import grade_rows, problems_by_id, verdict_columns
from grpo_core.stages.context import MakeContext
from grpo_core.stages.grading import check_grader, checked_grader
from grpo_core.store.schemas import TABLES

_ROWS_PER_GRADING = 4096


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """What to sample and in which portions.

    Args:
        table: `samples` or `eval_samples`.
        directory: Model directory of the policy.
        policy: Digest of the policy.
        purpose: First parts of every seed.
        num_samples: Samples a problem.
        temperature: Sampling temperature.
        max_completion_tokens: Budget.
        prompts_per_unit: Problems a unit.
        constants: Columns that are equal in every row.
        allowed: Setting → budget of everything that will be sampled from these problems later.
    """

    table: str
    directory: Path
    policy: str
    purpose: tuple[str | int, ...]
    num_samples: int
    temperature: float
    max_completion_tokens: int
    prompts_per_unit: int
    constants: dict[str, Any]
    allowed: dict[str, int]


def sample_units(context: MakeContext, problems: pa.Table, plan: UnitPlan) -> pa.Table:
    """Sample every problem unit by unit; units that an earlier attempt finished are read.

    Args:
        context: Of the artefact being made.
        problems: Rows with prompt_id and text, in an order that is a function of content.
        plan: What to sample.
    """
    rows = problems.select(["prompt_id", "text"]).to_pylist()
    units = [
        rows[start : start + plan.prompts_per_unit]
        for start in range(0, len(rows), plan.prompts_per_unit)
    ]
    missing = [n for n in range(len(units)) if not context.partial.has(plan.table, n)]
    if len(missing) < len(units):
        context.note(f"{len(units) - len(missing)} of {len(units)} units were already there")
    if missing:
        check_grader(context, list(problems_by_id(problems).values()))

    def longest_prompt(renderer: PromptRenderer, limit: int) -> int:
        named = ((row["prompt_id"], row["text"]) for row in rows)
        return check_prompts(renderer, named, plan.allowed, limit)

    runtime = load_runtime(context.config, plan.directory, longest_prompt) if missing else None
    for done, number in enumerate(range(len(units)), start=1):
        if runtime is not None and number in missing:
            with context.timings.part("sample") as timed:
                unit = _sample_unit(runtime, units[number], plan)
                timed.tokens = sum(unit.column("num_completion_tokens").to_pylist())
            context.partial.write(plan.table, number, unit)
        prompts = min(done * plan.prompts_per_unit, len(rows))
        context.report(prompts, len(rows), "prompts")
    if runtime is not None:
        runtime.sampler.close()
    return context.partial.read_all(plan.table)


def _sample_unit(runtime: Any, rows: Sequence[dict[str, str]], plan: UnitPlan) -> pa.Table:
    requests = [
        sample_request(
            runtime.renderer.render(row["text"]),
            (*plan.purpose, row["prompt_id"]),
            num_samples=plan.num_samples,
            temperature=plan.temperature,
            max_completion_tokens=plan.max_completion_tokens,
        )
        for row in rows
    ]
    sampled = runtime.sampler.sample(requests)
    columns = completion_columns(requests, sampled, renderer=runtime.renderer, policy=plan.policy)
    count = plan.num_samples
    columns["prompt_id"] = [row["prompt_id"] for row in rows for _ in range(count)]
    columns["sample_index"] = [index for _ in rows for index in range(count)]
    for name, value in plan.constants.items():
        columns[name] = [value] * len(columns["prompt_id"])
    return pa.Table.from_pydict(columns, schema=TABLES[plan.table].schema)


def grade_samples(
    context: MakeContext, samples: pa.Table, problems: pa.Table, table: str
) -> pa.Table:
    """Grade every sample against its problem's gold; what an earlier attempt graded is read.

    Args:
        context: Of the artefact being made.
        samples: Rows with prompt_id, sample_index and text, and `checkpoint` where the verdicts
            have one.
        problems: The `prompts` rows.
        table: `verdicts` or `eval_verdicts`.
    """
    known = problems_by_id(problems)
    with (
        checked_grader(context, list(known.values())) as grader,
        context.timings.part("grade"),
    ):
        for unit, start in enumerate(range(0, samples.num_rows, _ROWS_PER_GRADING)):
            if context.partial.has(table, unit):
                continue
            piece = samples.slice(start, _ROWS_PER_GRADING)
            graded = [known[name] for name in piece.column("prompt_id").to_pylist()]
            verdicts = grade_rows(grader, piece.column("text").to_pylist(), graded)
            columns = verdict_columns(grader.rules, verdicts, graded)
            for name in ("checkpoint", "prompt_id", "sample_index"):
                if name in piece.column_names:
                    columns[name] = piece.column(name).to_pylist()
            rows = pa.Table.from_pydict(columns, schema=TABLES[table].schema)
            context.partial.write(table, unit, rows)
            context.report(
                min(start + _ROWS_PER_GRADING, samples.num_rows), samples.num_rows, "samples"
            )
    return context.partial.read_all(table)
