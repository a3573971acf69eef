"""Stage evaluate: samples of the test problems from one checkpoint, and their verdicts."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from grpo_core.evaluation import pass_at_k_values
from grpo_core.planning.externals import model_directory
from grpo_core.prompts.ingest import active, draw_limit
from grpo_core.rewards import Label
from grpo_core.stages.context import Made, MakeContext
from grpo_core.stages.prefilter import label_shares
from grpo_core.stages.sampled_units import UnitPlan, grade_samples, sample_units
from grpo_core.types import Split


def make_eval_samples(context: MakeContext) -> Made:
    """Sample each test problem from the base model or a phase's checkpoint."""
    config, base = context.config, context.node.phase == 0
    prompts = context.inputs["prompts"].table("prompts")
    problems = draw_limit(active(prompts, Split.TEST), config.prompts.test_limit)
    if base:
        directory = model_directory(config.model.path)
        checkpoint = context.node.externals["checkpoint"]
    else:
        artifact = context.inputs["checkpoint"]
        directory, checkpoint = artifact.directory("checkpoint"), artifact.aspect("checkpoint")
    plan = UnitPlan(
        table="eval_samples",
        directory=directory,
        policy=checkpoint,
        purpose=(config.seed_of("evaluate"), "evaluate"),
        num_samples=config.evaluate.samples_per_prompt,
        temperature=config.evaluate.temperature,
        max_completion_tokens=config.evaluation_tokens,
        prompts_per_unit=config.evaluate.prompts_per_unit,
        constants={"checkpoint": checkpoint},
        allowed={"evaluate.max_completion_tokens": config.evaluation_tokens},
    )
    samples = sample_units(context, problems, plan)
    return Made(
        tables={"eval_samples": samples},
        figures={"prompts": problems.num_rows, "samples": samples.num_rows},
    )


def make_eval_verdicts(context: MakeContext) -> Made:
    """Grade the evaluation samples."""
    config = context.config
    prompts = context.inputs["prompts"].table("prompts")
    problems = draw_limit(active(prompts, Split.TEST), config.prompts.test_limit)
    columns = ["checkpoint", "prompt_id", "sample_index", "text"]
    samples = context.inputs["samples"].table("eval_samples", columns)
    verdicts = grade_samples(context, samples, problems, "eval_verdicts")
    counts = verdict_counts(verdicts)
    figures = _pass_at(config.evaluate.ks, counts)
    return Made(tables={"eval_verdicts": verdicts}, figures=label_shares(verdicts) | figures)


def _pass_at(ks: Sequence[int], counts: list[tuple[int, int]]) -> dict[str, float]:
    """pass@k for people who watch: the mean over problems with at least k decided samples."""
    found = {}
    for k in ks:
        values = pass_at_k_values([n for n, _ in counts], [c for _, c in counts], k)
        if not np.isnan(values).all():
            found[f"pass_at_{k}"] = float(np.nanmean(values))
    return found


def verdict_counts(verdicts: pa.Table) -> list[tuple[int, int]]:
    """(n, c) of each problem in order of its id: decided samples and correct ones."""
    counts: dict[str, list[int]] = {}
    for row in verdicts.select(["prompt_id", "label", "reward_raw"]).to_pylist():
        entry = counts.setdefault(row["prompt_id"], [0, 0])
        if row["reward_raw"] is not None:
            entry[0] += 1
            entry[1] += row["label"] == Label.CORRECT
    return [(entry[0], entry[1]) for _, entry in sorted(counts.items())]
