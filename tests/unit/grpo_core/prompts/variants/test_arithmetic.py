from fractions import Fraction

import pytest

from grpo_core.prompts.variants.arithmetic import (
    ExpressionError,
    complexity,
    literals,
    parse,
    values,
    write,
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+2*3", Fraction(7)),
        ("(1+2)*3", Fraction(9)),
        ("8-3-2", Fraction(3)),
        ("16/4/2", Fraction(2)),
        ("1/3", Fraction(1, 3)),
        (".5*10", Fraction(5)),
        ("1,200 + 0.10", Fraction(12001, 10)),
        ("((7))", Fraction(7)),
    ],
)
def test_exact_values(expression, value):
    assert values(parse(expression))[-1] == value


@pytest.mark.parametrize(
    "expression",
    ["", "1+", "-1", "2**3", "1 2", "(1", "1)", "x*2", "5%", "1,2", "__import__", "1e3", "1+" * 80],
)
def test_anything_else_is_refused(expression):
    with pytest.raises(ExpressionError):
        parse(expression)


def test_division_by_zero_is_refused():
    with pytest.raises(ExpressionError, match="division by zero"):
        values(parse("1/(2-2)"))


def test_literals_can_be_replaced():
    node = parse("2*(12 + .5)")
    assert [item.text for item in literals(node)] == ["2", "12", ".5"]
    assert values(node, {1: Fraction(3)})[-1] == 7
    assert write(node, {1: "3"}) == "2*(3+.5)"


def test_complexity_counts_the_digits_that_operations_handle():
    nodes = [parse("12+8"), parse("20*3"), parse("(100-1)/2")]
    assert complexity(nodes, [values(node) for node in nodes]) == 3 + 3 + (4 + 3)
