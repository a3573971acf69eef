"""Every case of the project's tables gets the verdict a careful teacher would give.

`data/rewards/cases.jsonl` and `public_cases.jsonl` hold completions, golds and labels by kind of
fault; where a rule is a choice, a case states the default of `VerifierOptions`.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from grpo_core.rewards import Label, VerifierOptions, grade

TABLES = Path(__file__).parents[4] / "data" / "rewards"


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TABLES / name).read_text("utf-8").strip().split("\n")]


CASES = _rows("cases.jsonl")
PUBLIC = _rows("public_cases.jsonl")
EXPLOSIVE = [
    ("9^{9^{9^{9}}}", "1", Label.UNPARSEABLE),
    ("9**9**9**9", "1", Label.UNPARSEABLE),
    ("(10^{8})!", "1", Label.UNPARSEABLE),
    ("((9!)!)!", "1", Label.UNPARSEABLE),
    ("10^{10^{10}}", "10", Label.UNPARSEABLE),
    (r"7^{7^{7^7}}\pi", r"\pi", Label.UNPARSEABLE),
    ("1e999999999", "1", Label.UNPARSEABLE),
    ("1/10^{999999999}", "0", Label.UNPARSEABLE),
    ("(x+y+z)^{9999}", "1", Label.UNPARSEABLE),
    (r"\binom{10^9}{5 \cdot 10^8}", "1", Label.UNPARSEABLE),
    ("8" * 9000, "1", Label.WRONG),
    ("8" * 9000, "8" * 9000, Label.CORRECT),
    ("8" * 8999 + "9", "8" * 9000, Label.WRONG),
    ("{" * 4000 + "72" + "}" * 4000, "72", Label.CORRECT),
    ("(" * 4000 + "72" + ")" * 4000, "72", Label.UNPARSEABLE),
    (r"\frac{1}{" * 400 + "2" + "}" * 400, "72", Label.UNPARSEABLE),
    ("-" * 3000 + "72", "72", Label.UNPARSEABLE),
    ("1+" * 3000 + "1", "3001", Label.CORRECT),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}: {case['completion']!r}")
def test_verdict(case: dict[str, Any]) -> None:
    verdict = grade(case["completion"], case["gold"], answer_type=case.get("answer_type"))
    assert verdict.label.value == case["label"], verdict


@pytest.mark.parametrize("case", PUBLIC, ids=lambda case: str(case["name"]))
def test_verdict_on_publicly_reported_cases(case: dict[str, Any]) -> None:
    verdict = grade(case["completion"], case["gold"])
    assert verdict.label.value == case["label"], verdict


@pytest.mark.parametrize(("answer", "gold", "label"), EXPLOSIVE, ids=lambda value: str(value)[:20])
def test_explosive_answers_are_decided_without_evaluating_them(
    answer: str, gold: str, label: Label
) -> None:
    start = time.process_time()
    verdict = grade(rf"Hence the result is \boxed{{{answer}}}.", gold)
    assert verdict.label is label, verdict
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    ("change", "answer", "gold", "label"),
    [
        ({"missing_unit": False}, "30", "30 cm", Label.WRONG),
        ({"convert_units": False}, "0.3 m", "30 cm", Label.WRONG),
        ({"missing_percent": False}, "15", r"15\%", Label.WRONG),
        ({"missing_base": False}, "3071", "3071_8", Label.WRONG),
        ({"list_matches_set": False}, "1, 3", r"\{1,3\}", Label.WRONG),
        ({"list_matches_tuple": True}, "1, 3", "(1,3)", Label.CORRECT),
        ({"decimal_comma": True}, "3,5", "3.5", Label.CORRECT),
        ({"ratio_as_fraction": False}, "1:2", r"\frac12", Label.WRONG),
        ({"number_words": False}, "seven", "7", Label.WRONG),
        ({"relative_tolerance": 1e-3}, "3.14", r"\pi", Label.CORRECT),
        ({"log_base_ten": False}, r"\log 1000", "3", Label.WRONG),
        ({"max_answer_chars": 3}, "1+1+1", "3", Label.UNPARSEABLE),
    ],
)
def test_each_option_is_a_choice(
    change: dict[str, Any], answer: str, gold: str, label: Label
) -> None:
    completion = rf"\boxed{{{answer}}}"
    assert grade(completion, gold, options=VerifierOptions(**change)).label is label
    assert grade(completion, gold).label is not label


def test_boxes_are_joined_by_option() -> None:
    completion = r"$x=\boxed{1}$ or $x=\boxed{3}$"
    assert grade(completion, "1,3").label is Label.CORRECT
    options = VerifierOptions(join_boxes=False)
    assert grade(completion, "1,3", options=options).label is Label.HEDGED


def test_answer_types_change_how_lists_are_read() -> None:
    assert grade(r"\boxed{1,234}", "1,234", answer_type="number").label is Label.CORRECT
    assert grade(r"\boxed{1234}", "1,234", answer_type="list").label is Label.WRONG
    assert grade(r"\boxed{234,1}", "1,234", answer_type="set").label is Label.CORRECT
    assert grade(r"\boxed{234,1}", "1,234", answer_type="list").label is Label.WRONG


def test_options_are_canonical_json() -> None:
    fields = VerifierOptions().canonical()
    assert json.loads(json.dumps(fields)) == fields
    assert set(fields) == set(VerifierOptions.__dataclass_fields__)


def test_a_verdict_explains_itself() -> None:
    verdict = grade("#### 41", "42")
    assert verdict.extracted == "41"
    assert verdict.candidates == ("41",)
    assert "different" in verdict.reason
    assert 0 <= verdict.seconds < 5
