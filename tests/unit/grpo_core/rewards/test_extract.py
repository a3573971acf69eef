"""Extraction: what is committed to, what is offered, and why."""

import time

import pytest

from grpo_core.rewards import VerifierOptions, grade
from grpo_core.rewards.extract import extract


def test_every_candidate_is_counted() -> None:
    found = extract(r"\boxed{6} \boxed{7} \boxed{8} \boxed{7}")
    assert found.candidates == ("6", "7", "8")
    assert found.hedged
    assert found.answer is None


def test_a_retracted_candidate_is_still_listed() -> None:
    found = extract(r"\boxed{15}. Wait: \boxed{16}")
    assert (found.answer, found.candidates) == ("16", ("15", "16"))


def test_the_reason_says_how() -> None:
    assert "cut off" in extract(r"\boxed{1").reason
    assert "no visible text" in extract("<think>all hidden").reason
    assert "takes back" in extract(r"\boxed{15}. Wait: \boxed{16}").reason


@pytest.mark.parametrize(
    ("rule", "text", "answer"),
    [
        ("last_sentence", "6 pens. That makes 7.", "7"),
        ("last_sentence", "There are 6 pens and 7 cups.", None),
        ("last_number", "There are 6 pens and 7 cups.", "7"),
        ("none", "That makes 7.", None),
        ("none", "The answer is 7.", "7"),
    ],
)
def test_fallback(rule: str, text: str, answer: str | None) -> None:
    assert extract(text, VerifierOptions(fallback=rule)).answer == answer  # type: ignore[arg-type]


def test_truncated_boxes_by_option() -> None:
    assert grade(r"so \boxed{7", "7").label.value == "unparseable"
    options = VerifierOptions(accept_unterminated=True)
    assert grade(r"so \boxed{7", "7", options=options).label.value == "correct"
    assert grade("<answer>7", "7", options=options).label.value == "correct"


def test_reasoning_tags_by_option() -> None:
    text = r"<plan>\boxed{6}</plan> The answer is 7."
    assert extract(text, VerifierOptions(reasoning_tags=("plan",))).candidates == ("7",)


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 100_000,
        "<answer>6 " + ": " * 100_000 + "</answer>",
        "<answer>" + "! minus > " * 50_000 + "6</answer>",
        "The answer is 6? " * 20_000,
        "{" * 1_000_000,
        "\\boxed{" + "{" * 500_000 + "}" * 500_000 + "}",
        "#### " * 100_000,
        "#" * 500_000,
        "the answer is " * 40_000,
        "answer " * 60_000,
        "<answer>" * 60_000,
        "<think>" * 60_000,
        "or " * 150_000,
        "The answer is " + "or " * 100_000,
        "The answer is " + "1," * 100_000,
        "The answer is " + "9" * 300_000,
        r"\boxed{" + "9" * 300_000 + "}",
        r"\boxed{" + "1 or " * 60_000 + "1}",
        r"\boxed{" + r"\text{" * 50_000,
        "-" * 300_000,
        "*" * 300_000,
        "$" * 300_000,
        " " * 300_000,
        "\\" * 300_000,
        "1 " * 150_000,
        "a=" * 150_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_lengths_take_bounded_time(text: str) -> None:
    start = time.process_time()
    verdict = grade(text, "42")
    assert verdict.reward_raw == 0.0
    assert time.process_time() - start < 3.0
