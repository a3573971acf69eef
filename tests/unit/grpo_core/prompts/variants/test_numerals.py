from fractions import Fraction

import pytest

from grpo_core.prompts.variants.numerals import find_numerals, format_like, rewrite


@pytest.mark.parametrize(
    "text",
    [
        *("the 5th", "3x more", "from 3-5 apples", "at 3:30", "on 1/2/2020", "room A4", "5kg"),
        *("-5 degrees", "2 1/2 cups", "1.2.3", "10\u00b0", "2\u00bd", "\u0663 apples", "1,2345"),
    ],
)
def test_numbers_that_are_part_of_something_else(text):
    assert find_numerals(text) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("48 clips, 1,200 pens.", [48, 1200]),
        ("$1.50 for (2) 5-foot boards", [Fraction(3, 2), 2, 5]),
        ("50% of 1/4 of it", [50, Fraction(1, 4)]),
        ("5, 7 and 9.", [5, 7, 9]),
        ("no number", []),
    ],
)
def test_values(text, values):
    numerals = find_numerals(text)
    assert numerals is not None
    assert [item.value for item in numerals] == values


@pytest.mark.parametrize(
    ("text", "movable"),
    [
        ("12 apples", True),
        ("$0.75 each", True),
        *(("1 apple", False), ("0 apples", False), ("1/4 cup", False), ("in 1998", False)),
        *(("on May 12", False), ("at 7 pm", False), ("7 days a week", False)),
        *(("8 legs", False), ("grade 5", False), ("an ounce equals 30 ml", False)),
    ],
)
def test_what_may_change(text, movable):
    numerals = find_numerals(text)
    assert numerals is not None
    assert [item.movable for item in numerals] == [movable]


def test_percent_and_cents_have_a_second_value():
    percent, cents = find_numerals("25% and 50 cents") or []
    assert percent.aliases == (25, Fraction(1, 4))
    assert cents.aliases == (50, Fraction(1, 2))


@pytest.mark.parametrize(
    ("original", "value", "written"),
    [
        ("1,200", Fraction(98765), "98,765"),
        ("1200", Fraction(98765), "98765"),
        ("12.50", Fraction(9), "9.00"),
        ("2.5", Fraction(10), "10"),
        ("2.5", Fraction(7, 2), "3.5"),
        (".5", Fraction(3, 4), None),
        (".25", Fraction(1, 2), ".50"),
        ("5", Fraction(1, 2), None),
        ("5", Fraction(-1), None),
    ],
)
def test_written_as_before(original, value, written):
    assert format_like(original, value) == written


def test_rewrite_takes_spans_in_any_order():
    assert rewrite("a 1 b 2", [(6, 7, "22"), (2, 3, "11")]) == "a 11 b 22"
    assert rewrite("a 1", [(2, 3, None)]) is None
