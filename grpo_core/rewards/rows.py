"""Grading of sampled rows: one verdict a completion, as columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.rewards.functions.grading import PROBLEM_FIELDS
from grpo_core.rewards.grader import Grader, GraderRules
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.verdict import VERIFIER_VERSION, Label, Verdict

Problem = dict[str, Any]


def grader_rules(config: RunConfig) -> GraderRules:
    """How the configuration grades rows."""
    reward = config.reward
    return GraderRules(
        function=reward.function,
        verifiers=reward.verifiers,
        options=verifier_options(config),
        pass_threshold=reward.pass_threshold,
        workers=config.execution.verifier_workers,
        timeout_seconds=reward.timeout_seconds,
        memory_bytes=reward.memory_mebibytes << 20,
        code_seconds=reward.calls.code_seconds,
        batch_rows=reward.calls.batch_rows,
        batch_timeout_seconds=reward.calls.batch_timeout_seconds,
        second_opinions=reward.calls.second_opinions,
    )


def verifier_options(config: RunConfig) -> VerifierOptions:
    """The configured choices of the `math` verifier."""
    return VerifierOptions(**config.reward.verifier.options())


def problems_by_id(rows: pa.Table) -> dict[str, Problem]:
    """prompt_id → problem; its source is the one that the row names, else its file."""
    columns = [*PROBLEM_FIELDS, "data_source"]
    found = {}
    for row in rows.select(columns).to_pylist():
        named = row.pop("data_source")
        found[row["prompt_id"]] = {**row, "source": named or row["source"]}
    return found


def grade_rows(grader: Grader, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
    """One verdict a completion, order kept."""
    given = [{name: problem.get(name) for name in PROBLEM_FIELDS} for problem in problems]
    return grader.grade(texts, given)


def verdict_columns(
    rules: GraderRules, verdicts: Sequence[Verdict], problems: Sequence[Problem]
) -> dict[str, list[Any]]:
    """Columns of graded rows, see `store.table_spec.verdict_fields`."""
    return {
        "label": [verdict.label.value for verdict in verdicts],
        "extracted": [verdict.extracted for verdict in verdicts],
        "candidates": [list(verdict.candidates) for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
        "reward_raw": [verdict.reward_raw for verdict in verdicts],
        "verifier_version": [VERIFIER_VERSION] * len(verdicts),
        "verifier": [rules.verifier_of(problem) for problem in problems],
        "confidence": [verdict.confidence for verdict in verdicts],
        "share_passed": [verdict.share_passed for verdict in verdicts],
        "grading_seconds": [verdict.seconds for verdict in verdicts],
    }


def stored_verdict(row: Mapping[str, Any]) -> Verdict:
    """The verdict that a row of graded columns holds."""
    return Verdict(
        label=Label(row["label"]),
        reward_raw=row["reward_raw"],
        extracted=row["extracted"],
        candidates=tuple(row["candidates"]),
        reason=row["reason"],
        seconds=row["grading_seconds"] or 0.0,
        confidence=row["confidence"],
        share_passed=row["share_passed"],
    )
