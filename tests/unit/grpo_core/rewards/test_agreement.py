"""Several graders, one verdict: the majority's, with its share as confidence."""

import pytest

from grpo_core.errors import DataContractError
from grpo_core.rewards import Label, Verdict, agreement, grade


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


def test_no_grader_is_an_error() -> None:
    with pytest.raises(DataContractError, match="at least one verdict"):
        agreement([])


def test_the_products_own_verdicts_say_nothing_about_confidence() -> None:
    assert grade("#### 4", "4").confidence is None
