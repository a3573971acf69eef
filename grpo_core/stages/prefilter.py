"""Stage prefilter: samples from the initial policy, their verdicts, and difficulty bands."""

from collections import Counter

import pyarrow as pa

from grpo_core.models.context import budgets
from grpo_core.planning.externals import model_directory
from grpo_core.prompts.bands import compute_bands, reband
from grpo_core.prompts.ingest import active, draw_limit
from grpo_core.stages.context import Made, MakeContext
from grpo_core.stages.sampled_units import UnitPlan, grade_samples, sample_units
from grpo_core.types import Band, Split

_META = ["prompt_id", "sample_index", "finish_reason"]


def train_problems(context: MakeContext, prompts: pa.Table) -> pa.Table:
    """The train problems of the run, by hash order."""
    return draw_limit(active(prompts, Split.TRAIN), context.config.prompts.train_limit)


def make_samples(context: MakeContext) -> Made:
    """Sample each train problem from the initial policy at the first phase's budget."""
    config = context.config
    problems = train_problems(context, context.inputs["prompts"].table("prompts"))
    plan = UnitPlan(
        table="samples",
        directory=model_directory(config.model.path),
        policy=context.node.externals["policy"],
        purpose=(config.seed_of("prefilter"), "prefilter"),
        num_samples=config.prefilter.samples_per_prompt,
        temperature=config.sampling.temperature,
        max_completion_tokens=config.train.phases[0].max_completion_tokens,
        prompts_per_unit=config.prefilter.prompts_per_unit,
        constants={},
        allowed=budgets(config),
    )
    samples = sample_units(context, problems, plan)
    return Made(
        tables={"samples": samples},
        figures={"prompts": problems.num_rows, "samples": samples.num_rows},
    )


def make_verdicts(context: MakeContext) -> Made:
    """Grade the prefilter samples."""
    samples = context.inputs["samples"].table("samples", ["prompt_id", "sample_index", "text"])
    problems = train_problems(context, context.inputs["prompts"].table("prompts"))
    verdicts = grade_samples(context, samples, problems, "verdicts")
    return Made(tables={"verdicts": verdicts}, figures=label_shares(verdicts))


def make_bands(context: MakeContext) -> Made:
    """Bands from the prefilter, or from a phase's own rollouts."""
    config = context.config
    is_longer = bool(context.node.fields["longer_budget_next"])
    with context.timings.part("bands"):
        if context.node.phase == 0:
            bands = compute_bands(
                context.inputs["samples"].table("samples", _META),
                context.inputs["verdicts"].table("verdicts"),
                config.bands,
                group_size=config.train.group_size,
                phase=0,
                longer_budget_next=is_longer,
            )
        else:
            columns = ["prompt_id", "variant_id", "label", "reward_raw", "finish_reason"]
            bands = reband(
                context.inputs["previous"].table("bands"),
                context.inputs["rollouts"].table("rollouts", columns),
                config.bands,
                group_size=config.train.group_size,
                phase=context.node.phase,
                longer_budget_next=is_longer,
            )
    counts = Counter(bands.column("band").to_pylist())
    context.report(bands.num_rows, bands.num_rows, "prompts")
    return Made(
        tables={"bands": bands},
        figures={band.value: float(counts.get(band.value, 0)) for band in Band},
    )


def label_shares(verdicts: pa.Table) -> dict[str, float]:
    """Share of each label among graded rows."""
    counts = Counter(verdicts.column("label").to_pylist())
    return {label: round(count / max(verdicts.num_rows, 1), 4) for label, count in counts.items()}
