import pytest

from grpo_core.prompts.normalise import gold_value, hash_fraction, normalise_problem, problem_id


def test_whitespace_and_unicode_forms_do_not_matter():
    composed, decomposed = "caf\u00e9 \u2028 two\n", " cafe\u0301\ttwo"
    assert normalise_problem(composed) == "caf\u00e9 two"
    assert problem_id(composed) == problem_id(decomposed)


def test_case_and_punctuation_matter():
    assert len({problem_id(text) for text in ("a b", "A b", "a b.", "ab")}) == 4


def test_id_is_pinned():
    assert problem_id("What is 2 + 2?") == "a484730971674b3f"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1,200", "$1200.0", True),
        ("18", "18.00", True),
        ("x + 1", "x  + 1", True),
        ("18", "19", False),
        ("1,20", "120", False),
        ("1/2", "0.5", False),
    ],
)
def test_gold_values(one, other, same):
    assert (gold_value(one) == gold_value(other)) is same


def test_hash_fraction_spreads_evenly():
    fractions = [hash_fraction("split", problem_id(str(index))) for index in range(2000)]
    assert 0.47 < sum(fractions) / 2000 < 0.53
    assert all(0 <= fraction < 1 for fraction in fractions)
