"""Process credit: each calculator line is recomputed; farming earns nothing."""

from fractions import Fraction

import pytest

from grpo_core.errors import ConfigError
from grpo_core.rewards import grade
from grpo_core.rewards.process import GradedRules, check_process, reward_graded, similarity

PROBLEM = "A crate holds 6 jars. There are 7 crates and 5 loose jars. How many jars are there?"
REFERENCE = "6*7=<<6*7=42>>42\n42+5=<<42+5=47>>47\n#### 47"


def _graded(completion: str, **changes: object) -> float | None:
    settings = {"problem": PROBLEM, "reference": REFERENCE, **changes}
    return reward_graded(grade(completion, "47"), completion, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("6*7=42", True),
        ("6*7=43", False),
        ("6 * 7 = 42", True),
        ("6x7=42", True),
        ("$6*7=$42", True),
        ("42/5=8.4", True),
        ("10/3=3.33", True),
        ("2/3=0.67", True),
        ("2/3=0.66", True),
        ("2/3=0.7", True),
        ("2/3=0.6", True),
        ("2/3=0.8", False),
        ("10/3=3", False),
        ("1,200*2=2,400", True),
        ("(6+7)*2=26", True),
        ("50%*8=4", True),
        ("50*.01*8=4", True),
        ("2^3=8", True),
        ("1/0=1", False),
        ("9^9^9^9=1", False),
        ("__import__('os')=1", False),
        ("42=42", False),
        ("6*7", False),
        ("", False),
    ],
)
def test_each_line_is_recomputed(line: str, right: bool) -> None:
    assert check_process(f"<<{line}>>").right == int(right)


def test_the_four_steps() -> None:
    assert _graded(REFERENCE) == 1.0
    assert _graded("<<6*7=41>>\n<<42+5=47>>\n#### 47") == 0.8
    assert _graded("#### 47") == 0.8
    assert _graded("<<6*7=42>>\n<<42-5=37>>\n#### 37") == 0.3
    assert _graded("<<6*5=31>>\n#### 31") == 0.0


def test_a_long_winded_process_is_not_concise() -> None:
    padded = "<<6*7=42>><<42+0=42>><<42+1=43>><<43-1=42>><<42+5=47>>\n#### 47"
    assert _graded(padded) == 0.8
    assert _graded("<<6*7=42>><<6*7=42>><<42+5=47>>\n#### 47") == 0.8


def test_invented_lines_earn_nothing() -> None:
    farm = "".join(f"<<{n}+{n}={2 * n}>>" for n in range(100, 120)) + "\n#### 3"
    assert _graded(farm) == 0.0
    assert _graded(farm, reference=None) == 0.0
    assert _graded("<<6*7=42>>\n#### 3", reference=None) == 0.3


def test_null_and_unparsed_verdicts() -> None:
    assert reward_graded(grade("#### 47", ""), "#### 47") is None
    assert _graded("<<6*7=42>> then what") == 0.0
    assert _graded("<<6*7=42>>\n#### 42\n#### 47") == 0.0


def test_similarity_never_lifts_a_wrong_answer_over_a_correct_one() -> None:
    rules = GradedRules(similarity_weight=10.0)
    wrong = _graded("<<6*7=42>><<42+5=47>>\n#### 3", rules=rules)
    right = _graded("#### 47", rules=rules)
    assert wrong is not None
    assert right is not None
    assert 0.3 < wrong < right
    assert similarity([Fraction(1), Fraction(2)], [Fraction(2)]) == pytest.approx(2 / 3)
    assert similarity([], []) == 0.0


def test_rules_must_keep_their_order() -> None:
    with pytest.raises(ConfigError):
        GradedRules(partial=0.9, flawed=0.8)
