"""Stage ingest: problem files become the `prompts` table."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from grpo_core.paths import PROJECT_ROOT
from grpo_core.prompts.ingest import active, ingest
from grpo_core.rewards import check_gold
from grpo_core.rewards.rows import verifier_options
from grpo_core.rewards.verifier_names import BUILT_IN
from grpo_core.stages.context import Made, MakeContext
from grpo_core.store.canonical import sha256_json
from grpo_core.types import Split

_TEXT = ("prompt_id", "text")
_GRADED = ("prompt_id", "text", "gold", "solution", "answer_type", "source")
_SELDOM = ("verifier", "tests", "data_source")
"""Columns that count only where a row has them."""


def make_prompts(context: MakeContext) -> Made:
    """Read, check, split and link every row of the configured sources."""
    config = context.config
    default = config.reward.function
    with context.timings.part("ingest"):
        result = ingest(
            config.prompts,
            base_directory=PROJECT_ROOT,
            check_gold=partial(check_gold, options=verifier_options(config)),
            default_verifier=default if default in BUILT_IN else "function",
            verifiers=(*BUILT_IN, *config.reward.verifiers),
        )
    summary = result.summary
    quarantined = sum(summary.quarantined.values())
    context.note(f"splits: {summary.split_method}")
    if quarantined:
        reasons = ", ".join(f"{count} {reason}" for reason, count in summary.quarantined.items())
        context.note(f"{quarantined} of {summary.rows} rows in quarantine: {reasons}")
    context.report(summary.rows, summary.rows, "rows")
    return Made(
        tables={"prompts": result.table},
        aspects=_aspects(result.table),
        figures={
            "rows": summary.rows,
            **{split: float(count) for split, count in summary.kept.items()},
            "quarantined": quarantined,
            "duplicates": summary.duplicates,
        },
    )


def _aspects(table: pa.Table) -> dict[str, str]:
    """Digests of what later stages read: a new gold does not touch what was sampled."""
    splits = {split: active(table, split) for split in Split}
    return {
        "train_text": _digest(splits[Split.TRAIN], _TEXT),
        "train": _digest(splits[Split.TRAIN], _GRADED),
        "validation": _digest(splits[Split.VALIDATION], _GRADED),
        "test_text": _digest(splits[Split.TEST], _TEXT),
        "test": _digest(splits[Split.TEST], _GRADED),
        "problems": sha256_json({split: _digest(rows, _GRADED) for split, rows in splits.items()}),
    }


def _digest(rows: pa.Table, columns: Sequence[str]) -> str:
    used = [name for name in _SELDOM if columns is _GRADED and rows[name].null_count < len(rows)]
    ordered = rows.select([*columns, *used]).sort_by("prompt_id")
    return sha256_json(ordered.to_pylist())
