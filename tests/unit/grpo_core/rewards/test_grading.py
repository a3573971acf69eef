"""Every case of the project's own table gets the verdict a careful teacher would give."""

import time

import pytest

from grpo_core.rewards import grade
from tests.unit.grpo_core.rewards.case_table import CASES, Case
from tests.unit.grpo_core.rewards.case_table_prose import PROSE


@pytest.mark.parametrize(
    "case", [*CASES, *PROSE], ids=lambda case: f"{case.kind}: {case.completion[:60]!r}"
)
def test_verdict(case: Case) -> None:
    start = time.monotonic()
    verdict = grade(case.completion, case.gold, answer_type=case.answer_type)
    assert verdict.label.value == case.label, verdict
    assert time.monotonic() - start < 5.0
