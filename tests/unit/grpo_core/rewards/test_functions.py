"""Reward functions of the user's: found without running them, called where they can be killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import ConfigError, ServiceError
from grpo_core.rewards import Label, Verdict
from grpo_core.rewards.functions.reference import find_function, function_digest
from grpo_core.rewards.grader import Grader, GraderRules
from grpo_core.store.files import sha256_file

SOURCE = """
import os, time
from grpo_core.rewards import Label, Verdict

def sample(completion, problem):
    if completion == "raise":
        raise KeyError("score")
    if completion == "die":
        os._exit(3)
    if completion == "hang":
        time.sleep(60)
    if completion == "memory":
        return len(bytearray(4 << 30))
    if completion == "verdict":
        return Verdict(Label.HEDGED, 0.0, "1", ("1", "2"), "two", confidence=0.25)
    return {"none": None, "text": "1.0", "nan": float("nan"), "true": True}.get(
        completion, len(completion) / 10
    )

def odd(completion, problem):
    return Verdict(Label.CORRECT, None) if completion == "null" else Verdict("fine", 1.0)

def unsure(completion, problem):
    return Verdict(Label.CORRECT, 1.0, confidence=1.5)

def fields(completion, problem):
    return Verdict(Label.CORRECT, 1.0, reason=",".join(sorted(problem)))

CALLS = []

def batch(completions, problems):
    CALLS.append(len(completions))
    if "short" in completions:
        return [1.0]
    if "raise" in completions:
        raise ValueError("no model")
    return [
        CALLS[-1] / 10 if problem["gold"] == text else 0
        for text, problem in zip(completions, problems)
    ]

def other(question, answer): ...
async def later(completion, problem): ...
def needy(completion, problem, model): ...
def roomy(completion, problem, model=None): ...
"""
PROBLEM = {"gold": "7"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own_rewards.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def grader(source: Path) -> Iterator[Grader]:
    names = ("odd", "unsure", "fields", "batch")
    rules = GraderRules(
        function=f"{source}:sample",
        verifiers={name: f"{source}:{name}" for name in names},
        workers=2,
        timeout_seconds=1.0,
        memory_bytes=1 << 30,
        batch_rows=4,
        pass_threshold=0.4,
    )
    with Grader(rules) as grader:
        yield grader


def _one(grader: Grader, completion: str, **problem: Any) -> Verdict:
    return grader.grade([completion], [PROBLEM | problem])[0]


def test_numbers_pass_at_the_threshold(grader: Grader) -> None:
    texts = ["abc", "abcd", "abcdefgh", "true"]
    verdicts = grader.grade(texts, [PROBLEM] * 4)
    assert [v.reward_raw for v in verdicts] == [0.3, 0.4, 0.8, 1.0]
    assert [v.label.value for v in verdicts] == ["wrong", "correct", "correct", "correct"]


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        ("raise", "it raised KeyError: 'score' (own_rewards.py line 7)"),
        ("none", "it gave no reward"),
        ("text", "it returned a str, expected a Verdict, a number or None"),
        ("nan", "it gave nan"),
    ],
)
def test_what_is_no_reward_is_a_null_with_its_reason(
    grader: Grader, completion: str, words: str
) -> None:
    verdict = _one(grader, completion)
    assert (verdict.label, verdict.reward_raw) == (Label.ERROR, None)
    assert words in verdict.reason


def test_one_that_dies_costs_its_own_sample(grader: Grader) -> None:
    verdicts = grader.grade(["abcd", "die", "abcde"], [PROBLEM] * 3)
    assert [v.label for v in verdicts] == [Label.CORRECT, Label.ERROR, Label.CORRECT]
    assert "died twice" in verdicts[1].reason


@pytest.mark.slow
def test_one_that_hangs_or_eats_memory_costs_its_own_sample(grader: Grader) -> None:
    verdicts = grader.grade(["abcd", "hang", "memory", "abcde"], [PROBLEM] * 4)
    labels = [v.label for v in verdicts]
    assert labels == [Label.CORRECT, Label.TIMEOUT, Label.ERROR, Label.CORRECT]
    assert "MemoryError" in verdicts[2].reason


def test_a_verdict_is_taken_as_it_is(grader: Grader) -> None:
    verdict = _one(grader, "verdict")
    assert (verdict.label, verdict.reward_raw, verdict.confidence) == (Label.HEDGED, 0.0, 0.25)
    assert (verdict.extracted, verdict.candidates, verdict.reason) == ("1", ("1", "2"), "two")


@pytest.mark.parametrize(
    ("name", "completion", "words"),
    [
        ("odd", "null", "its verdict correct has the reward None"),
        ("odd", "label", "the label 'fine'"),
        ("unsure", "", "confidence 1.5"),
    ],
)
def test_a_verdict_that_contradicts_itself_is_an_error(
    grader: Grader, name: str, completion: str, words: str
) -> None:
    verdict = _one(grader, completion, verifier=name)
    assert verdict.label is Label.ERROR
    assert words in verdict.reason


def test_a_problem_always_has_the_same_fields(grader: Grader) -> None:
    reason = _one(grader, "", verifier="fields").reason
    assert reason == "answer_type,gold,prompt_id,solution,source,tests,text,verifier"


def test_batches_are_of_the_configured_size_and_in_order(grader: Grader) -> None:
    texts = ["7", "8", "7", "7", "7", "8"]
    verdicts = grader.grade(texts, [PROBLEM | {"verifier": "batch"}] * 6)
    assert [v.reward_raw for v in verdicts] == [0.4, 0.0, 0.4, 0.4, 0.2, 0.0]


@pytest.mark.parametrize(
    ("completion", "words"), [("short", "returned 1 values for 2"), ("raise", "no model")]
)
def test_a_batch_that_fails_is_null_for_its_samples(
    grader: Grader, completion: str, words: str
) -> None:
    verdicts = grader.grade([completion, "7"], [PROBLEM | {"verifier": "batch"}] * 2)
    assert [v.reward_raw for v in verdicts] == [None, None]
    assert words in verdicts[0].reason


def test_each_row_goes_to_its_own_verifier(grader: Grader) -> None:
    problems = [{"gold": "7", "verifier": name} for name in ("math", "batch", None, "math")]
    verdicts = grader.grade(["#### 7", "7", "abcdef", "#### 8"], problems)
    assert [v.reward_raw for v in verdicts] == [1.0, 0.1, 0.6, 0.0]


def test_a_module_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import nowhere_to_be_found\ndef reward(completion, problem): ...\n")
    with (
        Grader(GraderRules(function=f"{path}:reward", workers=1)) as grader,
        pytest.raises(ServiceError, match=r"broken.py:reward.*nowhere_to_be_found"),
    ):
        grader.grade(["7"], [PROBLEM])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "expected `def missing`, got functions sample, odd"),
        ("later", "got `async def later`"),
        ("other", r"got (question, answer)"),
        ("needy", r"got (completion, problem, model)"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(source: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_function(f"{source}:{name}")
    assert words in str(caught.value)
    assert "hint" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["os:system", "nowhere_to_be_found:f", "none.py:f", "rewards", ":f", "a:b c", ""]
)
def test_what_is_no_reward_function_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="reward function"):
        find_function(text)


def test_functions_are_found_by_file_and_by_module(source: Path) -> None:
    assert find_function(f"{source}:roomy").per == "sample"
    assert find_function(f"{source}:batch").per == "batch"
    shown = find_function("docs/examples/rewards.py:closeness")
    assert (shown.name, shown.per) == ("closeness", "batch")
    with pytest.raises(ConfigError, match=r"expected parameters"):
        find_function("grpo_core.rewards.grading:grade_exactly")


def test_the_digest_covers_what_the_function_imports_of_the_users(tmp_path: Path) -> None:
    main, near, far, apart = (tmp_path / f"{name}.py" for name in ("main", "near", "far", "apart"))
    main.write_text("import json, numpy, near\ndef reward(completion, problem): ...\n")
    near.write_text("from far import value\n")
    far.write_text("value = 1\n")
    apart.write_text("value = 1\n")

    def digest() -> str:
        return function_digest(find_function(f"{main}:reward"), sha256_file)

    before = digest()
    apart.write_text("value = 2\n")
    assert digest() == before
    for path in (far, near, main):
        known = digest()
        path.write_text(path.read_text() + "# changed\n")
        assert digest() != known


def test_the_digest_does_not_depend_on_where_the_code_lies(tmp_path: Path) -> None:
    digests = set()
    for folder in ("one", "two"):
        package = tmp_path / folder / "pack"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "inner.py").write_text("value = 1\n")
        main = package / "main.py"
        main.write_text("from .inner import value\ndef reward(completion, problem): ...\n")
        digests.add(function_digest(find_function(f"{main}:reward"), sha256_file))
    assert len(digests) == 1
