"""Word problems in GSM8K format, drawn from story skeletons.

    question  Tom has 12 apples. He buys 8 more. Mia has 3 times as many. How many apples ...
    answer    <<12+8=20>>20
              <<20*3=60>>60 apples
              #### 60

Every number and result is a positive integer of at most three digits and every division is exact.
A solution's length in tokens is bounded by its number of steps (`TOKENS`), so that longer problems
need a larger completion budget.
"""

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grpo_core.tiny.stories import Skeleton, Step, draw_skeleton
from grpo_core.tiny.words import PEOPLE, THINGS, Person

MAX_RESULT = 999

TOKENS: Mapping[int, tuple[int, int]] = {1: (1, 24), 2: (25, 40), 3: (25, 40), 4: (41, 64)}
"""steps -> least and most tokens of the solution, end token included."""

LENGTH_WEIGHTS: Mapping[int, float] = {1: 0.3, 2: 0.3, 3: 0.2, 4: 0.2}
"""steps -> share of the problems."""

SIZE_WEIGHTS: Mapping[int, float] = {9: 0.5, 20: 0.3, 99: 0.2}
"""Largest number of a story -> share; factors and divisors stay at most 9."""

_MAX_FACTOR = 9
_TRIES = 60

_APPLY: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One calculator line: `<<left op right=result>>result`."""

    left: int
    op: str
    right: int
    result: int

    def __str__(self) -> str:
        return f"<<{self.left}{self.op}{self.right}={self.result}>>{self.result}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A word problem with the steps that solve it."""

    question: str
    skeleton: Skeleton
    numbers: Mapping[str, int]
    lines: tuple[Line, ...]
    unit: str

    @property
    def answer(self) -> str:
        """The gold solution in GSM8K format."""
        return solution_text(self.lines, self.unit)

    @property
    def signature(self) -> tuple[str, tuple[int, ...]]:
        """What two problems share that differ in people and things only."""
        return self.skeleton.text, tuple(self.numbers.values())


def apply(op: str, left: int, right: int) -> int:
    """The result of one operation; division rounds down."""
    return _APPLY[op](left, right)


def solution_text(lines: Sequence[Line], unit: str) -> str:
    """A solution in GSM8K format; an empty unit leaves the unit out."""
    worked = "\n".join(str(line) for line in lines)
    return f"{worked}{' ' if unit else ''}{unit}\n#### {lines[-1].result}"


def solution_tokens(lines: Sequence[Line]) -> int:
    """The length of `solution_text` in tokens, unit and end token included."""
    digits = sum(len(f"{n.left}{n.right}{n.result}{n.result}") for n in lines)
    return 5 * len(lines) + digits + len(str(lines[-1].result)) + 3


def solve(steps: Sequence[Step], numbers: Mapping[str, int]) -> tuple[Line, ...] | None:
    """The calculator lines, or None where a result is not a whole number in 1..999."""
    values = dict(numbers)
    lines: list[Line] = []
    for index, step in enumerate(steps, start=1):
        left, right = values[step.left], values[step.right]
        result = apply(step.op, left, right)
        exact = step.op != "/" or result * right == left
        if not (exact and 1 <= result <= MAX_RESULT):
            return None
        values[f"x{index}"] = result
        lines.append(Line(left, step.op, right, result))
    return tuple(lines)


def draw_problem(rng: random.Random) -> Problem:
    """One problem; its number of steps follows `LENGTH_WEIGHTS`."""
    length = _weighted(rng, LENGTH_WEIGHTS)
    while True:
        skeleton = draw_skeleton(rng, length)
        limits = _limits(skeleton, _weighted(rng, SIZE_WEIGHTS))
        for _ in range(_TRIES):
            numbers = {letter: rng.randint(2, most) for letter, most in limits.items()}
            lines = solve(skeleton.steps, numbers)
            if lines and TOKENS[length][0] <= solution_tokens(lines) <= TOKENS[length][1]:
                return _told(rng, skeleton, numbers, lines)


def _limits(skeleton: Skeleton, size: int) -> dict[str, int]:
    """The largest number that each letter may take, in order of the letters."""
    limits: dict[str, int] = {}
    for step in skeleton.steps:
        if step.op in "*/":
            limits[step.right] = _MAX_FACTOR
        limits.setdefault(step.left, max(SIZE_WEIGHTS) if step.right.startswith("x") else size)
        limits.setdefault(step.right, size)
    return {letter: limits[letter] for letter in sorted(limits) if not letter.startswith("x")}


def _told(
    rng: random.Random, skeleton: Skeleton, numbers: Mapping[str, int], lines: tuple[Line, ...]
) -> Problem:
    p, q = _two(rng, PEOPLE)
    thing = rng.choice(THINGS)
    question = skeleton.text.format(p=p, q=q, t=thing, **numbers)
    unit = (skeleton.thing or thing).many
    return Problem(question, skeleton, numbers, lines, unit)


def _weighted(rng: random.Random, weights: Mapping[int, float]) -> int:
    return rng.choices(list(weights), list(weights.values()))[0]


def _two(rng: random.Random, people: Sequence[Person]) -> tuple[Person, Person]:
    first = rng.randrange(len(people))
    second = rng.randrange(len(people) - 1)
    return people[first], people[second + (second >= first)]
