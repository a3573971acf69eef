"""A reward that cannot teach is named before anything is sampled."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import ConfigError
from grpo_core.rewards.grader import Grader, GraderRules
from grpo_core.rewards.selftest import pattern, selftest
from grpo_core.rewards.start_check import check_verifiers, require_sound

SOURCE = """
from grpo_core.rewards import grade

def right(completion, problem):
    return grade(completion, problem["gold"])

def inverted(completion, problem):
    reward = grade(completion, problem["gold"]).reward_raw
    return None if reward is None else 1 - reward

def generous(completion, problem):
    return 1.0

def stingy(completion, problem):
    return 0.0

def failing(completion, problem):
    return problem["score"]

def forgetful(completion, problem):
    return problem["gold"] != "13" and grade(completion, problem["gold"]).reward_raw

def contained(completion, problem):
    return problem["gold"] in completion

def batch(completions, problems):
    return [right(*pair).reward_raw for pair in zip(completions, problems)]
"""
GOLDS = ["12", "120", "13", "5", "1/2", "0.5"]
PROBLEMS: list[dict[str, Any]] = [
    {"prompt_id": f"p{n}", "gold": gold, "solution": f"so it is {gold}."}
    for n, gold in enumerate(GOLDS)
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "rewards.py"
    path.write_text(SOURCE)
    return path


def _findings(source: Path, name: str) -> list[str]:
    with Grader(GraderRules(function=f"{source}:{name}", workers=1)) as grader:
        return [str(finding) for finding in check_verifiers(grader, PROBLEMS)]


@pytest.mark.parametrize("name", ["right", "batch"])
def test_sound_rewards_pass(source: Path, name: str) -> None:
    assert _findings(source, name) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("inverted", "is inverted"),
        ("generous", "is constant: it pays every answer"),
        ("stingy", "is constant: it pays nothing"),
        ("failing", "always fails"),
        ("forgetful", "does not pay 2 of 12 golds and solutions"),
        ("contained", "pays 1 of 6 golds of other rows"),
    ],
)
def test_each_fault_is_named(source: Path, name: str, words: str) -> None:
    (finding,) = _findings(source, name)
    assert words in finding
    assert f"rewards.py:{name}" in finding
    assert "(gold '" in finding


def test_the_rows_that_show_it_are_named(source: Path) -> None:
    (finding,) = _findings(source, "forgetful")
    assert "gold of p2 (gold '13'): wrong" in finding
    (finding,) = _findings(source, "failing")
    assert "KeyError: 'score'" in finding


def test_the_math_verifier_passes_on_equal_golds_in_other_forms() -> None:
    with Grader() as grader:
        require_sound(grader, PROBLEMS)
        require_sound(grader, [{"gold": "7", "solution": None}] * 3)


def test_a_gold_that_math_cannot_pay_stops_the_start() -> None:
    rows = [*PROBLEMS, {"prompt_id": "bad", "gold": "???", "solution": None}]
    with Grader() as grader, pytest.raises(ConfigError, match="gold of bad") as caught:
        require_sound(grader, rows)
    assert "start_check=warn" in str(caught.value)


def test_each_verifier_of_a_mixture_is_tried(source: Path) -> None:
    add = {"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}
    sub = {"fn_name": "sub", "inputs": [[1, 2]], "outputs": [-1]}
    rows = [
        *PROBLEMS,
        {"gold": "def add(a, b):\n    return a + b", "verifier": "code", "tests": json.dumps(add)},
        {"gold": "def sub(a, b):\n    return a - b", "verifier": "code", "tests": json.dumps(sub)},
        {"gold": "7", "verifier": "odd"},
        {"gold": None, "verifier": "odd"},
    ]
    rules = GraderRules(verifiers={"odd": f"{source}:stingy"}, workers=1)
    with Grader(rules) as grader:
        found = check_verifiers(grader, rows)
        assert [finding.verifier for finding in found] == ["odd"]
        rows[6]["gold"] = "def add(a, b):\n    return a * b"
        assert {finding.verifier for finding in check_verifiers(grader, rows)} == {"code", "odd"}


def test_rows_without_golds_cannot_be_tried(source: Path) -> None:
    with Grader(GraderRules(function=f"{source}:stingy", workers=1)) as grader:
        assert check_verifiers(grader, [{"gold": None}, {"gold": ""}]) == []


@pytest.mark.parametrize("name", ["math", "code"])
def test_the_products_own_verifiers_pass_the_selftest(name: str) -> None:
    tried = selftest(name, GraderRules(workers=1, code_seconds=5.0))
    assert [item.case["kind"] for item in tried if not item.is_right] == []
    assert {item.case["group"] for item in tried} == {"accept", "reject", "exploit"}
    assert pattern(tried) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("inverted", "inverted"),
        ("generous", "pays every answer"),
        ("stingy", "pays nothing"),
        ("failing", "always fails"),
        ("contained", ""),
    ],
)
def test_the_selftest_names_what_is_wrong(source: Path, name: str, words: str) -> None:
    tried = selftest(f"{source}:{name}", GraderRules(workers=1))
    assert words in pattern(tried)
    failed = {item.case["kind"] for item in tried if not item.is_right}
    assert failed
    if name == "contained":
        assert {"shotgun list", "gold inside the answer", "negation"} <= failed
