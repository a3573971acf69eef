"""Shaping parts: values worked by hand, bounds, and the ordering they must keep."""

import pytest

from grpo_core.errors import ConfigError
from grpo_core.rewards import Label, Verdict, overlong_penalty
from grpo_core.rewards.shaping import (
    OVERLONG_WEIGHT,
    RULE_CAP,
    AnswerFormat,
    RewardScale,
    base_reward,
    format_credit,
    language_consistency,
    length_bonus,
    repetition_penalty,
    shaped_reward,
)


def _verdict(label: Label, extracted: str | None = "7") -> Verdict:
    return Verdict(label, None, extracted, (), "", 0.0)


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(0, 0.0), (150, 0.0), (151, -0.02), (175, -0.5), (199, -0.98), (200, -1.0), (9999, -1.0)],
)
def test_overlong_penalty(length: int, penalty: float) -> None:
    assert overlong_penalty(length, max_length=200, buffer=50) == pytest.approx(penalty, abs=1e-12)


@pytest.mark.parametrize(("length", "penalty"), [(199, 0.0), (200, 0.0), (201, -1.0)])
def test_overlong_penalty_without_buffer_is_a_step(length: int, penalty: float) -> None:
    assert overlong_penalty(length, max_length=200, buffer=0) == penalty


def test_overlong_penalty_over_the_whole_budget() -> None:
    assert overlong_penalty(50, max_length=200, buffer=200) == -0.25
    assert overlong_penalty(0, max_length=0, buffer=0) == 0.0


@pytest.mark.parametrize("bad", [(-1, 10, 5), (1, 10, 11), (1, 10, -1)])
def test_overlong_penalty_refuses_nonsense(bad: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError):
        overlong_penalty(bad[0], max_length=bad[1], buffer=bad[2])


def test_repetition_penalty() -> None:
    assert repetition_penalty([1, 2, 3, 4], ngram=2) == 0.0
    assert repetition_penalty([1, 2] * 4, ngram=2) == -5 / 7
    assert repetition_penalty([], ngram=2) == 0.0
    assert repetition_penalty(["a"] * 101, ngram=1) == -100 / 101
    with pytest.raises(ConfigError):
        repetition_penalty([1], ngram=0)


@pytest.mark.parametrize(
    ("text", "answer_format", "credit"),
    [
        ("<think>2+5</think><answer>7</answer>", "think_answer", 1.0),
        ("<think></think><answer></answer>", "think_answer", 0.0),
        ("<think> </think><answer>7</answer>", "think_answer", 0.0),
        ("<think>a</think><think>b</think><answer>7</answer>", "think_answer", 0.0),
        ("hello <think>a</think><answer>7</answer>", "think_answer", 0.0),
        (r"<think>a</think> \boxed{7}", "think_boxed", 1.0),
        (r"<think>\boxed{7}", "think_boxed", 0.0),
        (r"so \boxed{7}", "boxed", 1.0),
        ("so 7", "boxed", 0.0),
        ("so\n#### 7", "hash", 1.0),
        ("so #### 7", "hash", 0.0),
    ],
)
def test_format_credit(text: str, answer_format: AnswerFormat, credit: float) -> None:
    got = format_credit(text, _verdict(Label.CORRECT), answer_format=answer_format)
    assert got == credit


@pytest.mark.parametrize(
    "label", [Label.UNPARSEABLE, Label.HEDGED, Label.TIMEOUT, Label.ERROR, Label.GOLD_UNPARSEABLE]
)
def test_format_is_paid_only_with_a_parsed_answer(label: Label) -> None:
    text = "<think>2+5</think><answer>7</answer>"
    assert format_credit(text, _verdict(label), answer_format="think_answer") == 0.0


def test_language_consistency() -> None:
    assert language_consistency("plain english words", script="latin") == 1.0
    assert language_consistency("так вот", script="cyrillic") == 1.0
    assert language_consistency("half пять", script="latin") == 0.5
    assert language_consistency(r"所以 $x+y$ \frac{1}{2} x", script="han") == 1.0
    assert language_consistency("12 + 3", script="han") == 1.0
    with pytest.raises(ConfigError, match="unknown script"):
        language_consistency("a", script="klingon")


def test_length_bonus_only_for_correct() -> None:
    assert length_bonus(25, _verdict(Label.CORRECT), max_length=100) == 0.75
    assert length_bonus(250, _verdict(Label.CORRECT), max_length=100) == 0.0
    assert length_bonus(25, _verdict(Label.WRONG), max_length=100) == 0.0


def test_base_reward() -> None:
    assert base_reward(1.0, Label.CORRECT, scale="±1") == 1.0
    assert base_reward(0.0, Label.WRONG, scale="±1") == -1.0
    assert base_reward(0.0, Label.HEDGED, hedged_value=-0.5) == -0.5
    assert base_reward(None, Label.TIMEOUT, scale="±1") is None


@pytest.mark.parametrize("scale", ["01", "±1"])
def test_a_correct_answer_at_the_limit_beats_a_short_wrong_one(scale: RewardScale) -> None:
    def total(label: Label, raw: float, overlong: float) -> float:
        weights = {"overlong": OVERLONG_WEIGHT[scale]}
        base = base_reward(raw, label, scale=scale)
        shaped = shaped_reward(base, {"overlong": overlong}, weights, scale=scale)
        assert shaped is not None
        return shaped

    assert total(Label.CORRECT, 1.0, -1.0) > total(Label.WRONG, 0.0, 0.0)


def test_rule_parts_are_capped_together() -> None:
    parts = {"format": 1.0, "language": 1.0, "length": 1.0, "repetition": 0.0}
    weights = dict.fromkeys(parts, 5.0)
    assert shaped_reward(0.0, parts, weights) == RULE_CAP
    assert shaped_reward(1.0, {"repetition": -1.0}, weights) == 1.0 - RULE_CAP
    assert shaped_reward(1.0, {"format": 1.0}, {}) == 1.0
    assert shaped_reward(None, parts, weights) is None
