"""Stage variants: changed problems with a gold of their own."""

from collections import Counter

from grpo_core.prompts.variants import derive_variants
from grpo_core.stages.context import Made, MakeContext
from grpo_core.stages.prefilter import train_problems


def make_variants(context: MakeContext) -> Made:
    """Rewrite the train problems of the run; a rewrite never equals a problem of any split."""
    prompts = context.inputs["prompts"].table("prompts")
    taken = set(prompts.column("prompt_id").drop_null().to_pylist())
    problems = train_problems(context, prompts)
    with context.timings.part("variants"):
        result = derive_variants(
            problems,
            context.config.variants,
            context.config.seed_of("variants"),
            taken_ids=taken,
        )
    for reason, count in list(result.refused.items())[:3]:
        context.note(f"no variant for {count} problems: {reason}")
    counts = Counter(result.table.column("kind").to_pylist())
    context.report(problems.num_rows, problems.num_rows, "prompts")
    return Made(
        tables={"variants": result.table},
        figures={"prompts": problems.num_rows, **{kind: float(n) for kind, n in counts.items()}},
    )
