"""What the warm start imitates: worked solutions, a share of them careless.

Text on the web contains mistakes, and a base model samples them. The tiny model's demonstrations
are careless in a stated way, so that its base policy knows how to solve the problems and still
fails often; that is what GRPO then improves. A careless demonstration is solved on from its own
mistake, and its `####` line agrees with it.

    slip             <<12+8=19>>19      the result is off by one or by ten
    wrong operation  <<12-8=4>>4        for <<12+8=20>>20
    skipped step     the line is missing, and the next one uses the number before it
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, StrictUndefined, Template

from grpo_core.prompts.suffixes import SUFFIXES
from grpo_core.tiny.problems import Line, Problem, apply, solution_text

PROMPT_TEMPLATE = "{{ problem }}{% if suffix %} {{ suffix }}{% endif %}\nAnswer:"
"""The rendering (Jinja) that the warm start has seen; a prompt ends without a space."""

SUFFIX_SHARE = 0.4
"""Share of the demonstrations that carry a suffix, each as often."""

_CONFUSED: Mapping[str, str] = {"+": "-", "-": "+", "*": "+", "/": "-"}


@dataclass(frozen=True, slots=True)
class Carelessness:
    """How often a line of a demonstration is careless.

    Attributes:
        easy: Rate of lines that add or subtract within 20.
        medium: Rate of the other lines.
        hard: Rate of lines that multiply or divide numbers of more than one digit.
        skip: Share of the careless lines, but for the last, that are skipped.
        confuse: Share of the careless lines with a wrong operation; the rest are slips.
    """

    easy: float = 0.05
    medium: float = 0.2
    hard: float = 0.35
    skip: float = 0.25
    confuse: float = 0.35

    def rate(self, line: Line) -> float:
        """The probability that somebody is careless at this line."""
        if line.op in "+-":
            return self.easy if max(line.left, line.right, line.result) <= 20 else self.medium
        return self.hard if max(line.left, line.right) > 9 and line.result > 9 else self.medium


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A prompt and the completion that the warm start imitates."""

    prompt: str
    completion: str
    correct: bool


@cache
def _template() -> Template:
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        PROMPT_TEMPLATE
    )


def render_prompt(problem: str, suffix: str = "") -> str:
    r"""The model input of a problem.

    >>> render_prompt("How many?", "Be brief.")
    'How many? Be brief.\nAnswer:'
    """
    return _template().render(problem=problem, suffix=suffix)


def demonstrate(rng: random.Random, problem: Problem, carelessness: Carelessness) -> Demonstration:
    """A demonstration of a problem, with a suffix in `SUFFIX_SHARE` of the cases."""
    suffix_id = rng.choice(list(SUFFIXES)) if rng.random() < SUFFIX_SHARE else ""
    lines = careless_lines(rng, problem, carelessness)
    unit = "" if suffix_id == "brief" else problem.unit
    return Demonstration(
        prompt=render_prompt(problem.question, SUFFIXES.get(suffix_id, "")),
        completion=solution_text(lines, unit),
        correct=lines[-1].result == problem.lines[-1].result,
    )


def careless_lines(
    rng: random.Random, problem: Problem, carelessness: Carelessness
) -> tuple[Line, ...]:
    """The problem's lines as a careless solver writes them; mistakes are carried on."""
    values = dict(problem.numbers)
    lines: list[Line] = []
    last = len(problem.lines)
    for index, (step, right_line) in enumerate(
        zip(problem.skeleton.steps, problem.lines, strict=True), start=1
    ):
        line = _solved(values[step.left], step.op, values[step.right])
        if rng.random() < carelessness.rate(right_line):
            if index < last and rng.random() < carelessness.skip:
                values[f"x{index}"] = line.left
                continue
            line = _mistaken(rng, line, carelessness)
        values[f"x{index}"] = line.result
        lines.append(line)
    return tuple(lines)


def _solved(left: int, op: str, right: int) -> Line:
    """The line of numbers that may come from a mistake: at least 1, at most three digits."""
    return Line(left, op, right, min(max(apply(op, left, right), 1), 999))


def _mistaken(rng: random.Random, line: Line, carelessness: Carelessness) -> Line:
    op = _CONFUSED[line.op]
    if rng.random() < carelessness.confuse and (op == "+" or line.left > line.right):
        return _solved(line.left, op, line.right)
    offsets = (-1, 1, -10, 10) if line.result > 10 else (-1, 1)
    slipped = line.result + rng.choice(offsets)
    return Line(line.left, line.op, line.right, slipped if slipped >= 1 else line.result + 1)
