"""Problems: solvable, in GSM8K format, of the length that their steps promise."""

import operator
import random
import re
from fractions import Fraction

import pytest

from grpo_core.tiny.problems import (
    LENGTH_WEIGHTS,
    MAX_RESULT,
    TOKENS,
    Line,
    Problem,
    draw_problem,
    solution_text,
    solve,
)
from grpo_core.tiny.stories import parse_steps

APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
LINE = re.compile(r"<<(\d+)([-+*/])(\d+)=(\d+)>>(\d+)")


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    rng = random.Random("problems")
    return [draw_problem(rng) for _ in range(600)]


def test_the_same_seed_draws_the_same_problems() -> None:
    first, second = random.Random(5), random.Random(5)
    assert [draw_problem(first) for _ in range(20)] == [draw_problem(second) for _ in range(20)]


def test_every_calculator_line_holds_and_uses_numbers_of_the_question(
    problems: list[Problem],
) -> None:
    for problem in problems:
        known = set(re.findall(r"\d+", problem.question))
        for left, op, right, result, repeated in LINE.findall(problem.answer):
            assert {left, right} <= known
            assert Fraction(int(result)) == APPLY[op](Fraction(left), Fraction(right))
            assert repeated == result
            assert 1 <= int(result) <= MAX_RESULT
            known.add(result)
        assert problem.answer.endswith(f"\n#### {result}")


def test_every_number_of_a_question_is_used(problems: list[Problem]) -> None:
    for problem in problems:
        told = sorted(map(int, re.findall(r"\d+", problem.question)))
        assert told == sorted(problem.numbers.values())


def test_all_lengths_operations_and_ranges_occur(problems: list[Problem]) -> None:
    assert {len(problem.lines) for problem in problems} == set(LENGTH_WEIGHTS) == set(TOKENS)
    assert {line.op for problem in problems for line in problem.lines} == set("+-*/")
    largest = [max(problem.numbers.values()) for problem in problems]
    assert min(largest) <= 9
    assert max(largest) > 90
    answers = [problem.lines[-1].result for problem in problems]
    assert max(answers.count(answer) for answer in set(answers)) < len(answers) / 10


def test_a_skeleton_can_be_solved_for_other_numbers() -> None:
    steps = parse_steps("a*b c-x1")
    assert solve(steps, {"a": 5, "b": 4, "c": 50}) == (
        Line(5, "*", 4, 20),
        Line(50, "-", 20, 30),
    )
    assert solve(steps, {"a": 5, "b": 4, "c": 20}) is None, "zero is no positive result"
    assert solve(parse_steps("a/b"), {"a": 7, "b": 2}) is None, "7 / 2 is not exact"
    assert solve(parse_steps("a*b"), {"a": 200, "b": 5}) is None, "1000 has four digits"


def test_solution_text_is_gsm8k() -> None:
    lines = (Line(12, "+", 8, 20), Line(20, "/", 4, 5))
    assert solution_text(lines, "apples") == "<<12+8=20>>20\n<<20/4=5>>5 apples\n#### 5"
    assert solution_text(lines, "") == "<<12+8=20>>20\n<<20/4=5>>5\n#### 5"
