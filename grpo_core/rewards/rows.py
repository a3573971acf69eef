"""Grading of sampled rows: one verdict a completion, as columns."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.rewards import VERIFIER_VERSION, Verdict, VerifierPool

Problem = dict[str, Any]


def verifier_pool(config: RunConfig) -> VerifierPool:
    """The configured pool; starts processes only when a symbolic answer needs one."""
    return VerifierPool(
        workers=config.execution.verifier_workers,
        timeout_seconds=config.reward.timeout_seconds,
        memory_bytes=config.reward.memory_mebibytes << 20,
    )


def problems_by_id(rows: pa.Table) -> dict[str, Problem]:
    """prompt_id → text, gold, solution, answer type and source."""
    columns = ["prompt_id", "text", "gold", "solution", "answer_type", "source"]
    return {row["prompt_id"]: row for row in rows.select(columns).to_pylist()}


def grade_rows(
    pool: VerifierPool, texts: Sequence[str], problems: Sequence[Problem]
) -> list[Verdict]:
    """One verdict a completion, order kept."""
    return pool.grade_batch(
        [
            (text, str(problem["gold"]), problem["answer_type"])
            for text, problem in zip(texts, problems, strict=True)
        ]
    )


def verdict_columns(verdicts: Sequence[Verdict]) -> dict[str, list[Any]]:
    """Columns of graded rows, see `store.table_spec.verdict_fields`."""
    return {
        "label": [verdict.label.value for verdict in verdicts],
        "extracted": [verdict.extracted for verdict in verdicts],
        "candidates": [list(verdict.candidates) for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
        "reward_raw": [verdict.reward_raw for verdict in verdicts],
        "verifier_version": [VERIFIER_VERSION] * len(verdicts),
        "confidence": [verdict.confidence for verdict in verdicts],
    }
