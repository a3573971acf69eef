"""Several graders, one verdict: the majority's, with its share as confidence."""

import pytest

from grpo_core.config import load_config
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.rewards import Label, Verdict, agreement, grade
from grpo_core.rewards.grader import Grader, GraderRules


def verdict(reward: float | None, extracted: str = "") -> Verdict:
    label = {1.0: Label.CORRECT, 0.0: Label.WRONG, None: Label.TIMEOUT}[reward]
    return Verdict(label, reward, extracted, (), "", 0.0)


@pytest.mark.parametrize(
    ("rewards", "winner", "confidence"),
    [
        ([1.0], 1.0, 1.0),
        ([1.0, 1.0, 0.0], 1.0, 2 / 3),
        ([0.0, 1.0, 1.0], 1.0, 2 / 3),
        ([0.0, 1.0], 0.0, 0.5),
        ([1.0, 0.0], 1.0, 0.5),
        ([None, 0.0, 0.0], 0.0, 1.0),
    ],
)
def test_the_majority_wins(rewards: list[float | None], winner: float, confidence: float) -> None:
    agreed = agreement([verdict(reward) for reward in rewards])
    assert agreed.reward_raw == winner
    assert agreed.confidence == pytest.approx(confidence)


def test_the_first_verdict_of_the_majority_is_kept_whole() -> None:
    agreed = agreement([verdict(0.0, "3"), verdict(1.0, "4"), verdict(1.0, "4.0")])
    assert agreed.extracted == "4"


def test_without_a_vote_the_first_verdict_stands() -> None:
    first = verdict(None)
    assert agreement([first, verdict(None)]) is first


def test_second_opinions_decide_and_weigh() -> None:
    """`math` reads the last number; the other verifier wants a box, twice over."""
    strict = "docs/examples/rewards.py:boxed_only"
    problem = {"prompt_id": "p", "text": "2 + 2?", "gold": "4", "source": "data"}
    texts = [r"\boxed{4}", "#### 4", r"\boxed{5}"]
    verifiers = {"one": strict, "two": strict}
    rules = GraderRules(verifiers=verifiers, second_opinions=("one",), workers=1)
    with Grader(rules) as grader:
        pairs = [(v.label, v.confidence) for v in grader.grade(texts, [problem] * 3)]
    assert pairs == [(Label.CORRECT, 1.0), (Label.CORRECT, 0.5), (Label.WRONG, 1.0)]
    rules = GraderRules(verifiers=verifiers, second_opinions=("one", "two"), workers=1)
    with Grader(rules) as grader:
        outvoted = grader.grade(texts, [problem] * 3)[1]
    assert outvoted.label is not Label.CORRECT
    assert outvoted.confidence == pytest.approx(2 / 3)


def test_a_second_opinion_needs_a_verifier() -> None:
    with pytest.raises(ConfigError, match="second_opinions: there is no verifier 'mine'"):
        load_config("tiny", overrides=['reward.calls.second_opinions=["mine"]'])


def test_no_grader_is_an_error() -> None:
    with pytest.raises(DataContractError, match="at least one verdict"):
        agreement([])


def test_the_products_own_verdicts_say_nothing_about_confidence() -> None:
    assert grade("#### 4", "4").confidence is None
