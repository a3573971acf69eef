"""Shaped rewards: parts are stored, add up, and never outweigh the verdict."""

import math

import pytest

from grpo_core.config import load_config
from grpo_core.rewards import grade
from grpo_core.training.shaping import Completion, ShapedReward, shape_reward

GOLD = "7"


def shaped(text: str, *overrides: str, length: int = 10, budget: int = 20) -> ShapedReward:
    config = load_config("tiny", overrides=overrides)
    completion = Completion(text, list(range(length)), "3 and 4?", "<<3+4=7>>7\n#### 7")
    return shape_reward(config, grade(text, GOLD), completion, max_completion_tokens=budget)


def parts_sum(reward: ShapedReward) -> float:
    return reward.overlong + reward.repetition + reward.format + reward.language + reward.length


def test_a_short_correct_answer_is_worth_one() -> None:
    assert shaped("#### 7").total == 1.0


def test_a_correct_answer_at_the_limit_stays_above_a_short_wrong_one() -> None:
    at_limit, wrong = shaped("#### 7", length=20), shaped("#### 8")
    assert at_limit.overlong == -0.5
    assert at_limit.total is not None
    assert wrong.total is not None
    assert at_limit.total > wrong.total


@pytest.mark.parametrize(
    "overrides",
    [
        ("reward.rules.format_weight=0.5", "reward.rules.answer_format=hash"),
        ("reward.rules.length_weight=0.2",),
        ("reward.rules.language_weight=0.5", "reward.rules.language_script=han"),
        ("reward.scale=±1", "reward.overlong_weight=1"),
        ("reward.process_credit=true",),
        ("reward.rules.repetition_weight=0.5", "reward.rules.repetition_ngram=1"),
    ],
)
@pytest.mark.parametrize("text", ["so seven <<3+4=7>>7\n#### 7", "#### 8", "no idea"])
def test_parts_add_up_to_the_reward(overrides: tuple[str, ...], text: str) -> None:
    reward = shaped(text, *overrides, length=18)
    assert reward.base is not None
    assert reward.total is not None
    assert math.isclose(reward.total, reward.base + parts_sum(reward), abs_tol=1e-9)


def test_rule_parts_are_capped_below_the_verdict() -> None:
    weights = ("reward.rules.format_weight=0.5", "reward.rules.length_weight=0.2")
    reward = shaped("#### 7", *weights)
    assert reward.base == 1.0
    assert reward.total is not None
    assert reward.total <= 1.0 + 0.2 + 1e-9


def test_format_is_paid_only_with_a_parsed_answer() -> None:
    assert shaped("####", "reward.rules.format_weight=0.5").format == 0.0


def test_process_credit_pays_a_partly_right_process() -> None:
    reward = shaped("<<3+4=7>>7\n#### 8", "reward.process_credit=true")
    assert reward.graded == 0.3
    assert reward.base == 0.3
