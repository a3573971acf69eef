"""Calculator lines `<<expression=result>>` of a worked solution."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from grpo_core.prompts.variants.arithmetic import (
    ExpressionError,
    Node,
    number_value,
    parse,
    values,
)
from grpo_core.prompts.variants.numerals import NUMBER
from grpo_core.prompts.variants.problem import RefusalError

_LINE = re.compile(r"<<([^<>=]*)=([^<>=]*)>>")
_PLAIN_NUMBER = re.compile(NUMBER)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a number comes from: an input or an earlier line's result, times a scale.

    Args:
        source: `input` or `result`.
        index: Which one.
        scale: 1, or 1/100 for a percentage or cents written as a decimal.
    """

    source: str
    index: int
    scale: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Line:
    """One calculator line.

    Args:
        start: Offset of `<<` in the solution.
        end: Offset after `>>`.
        node: The expression.
        result_text: The result as written.
        trace: Value of every literal and operation, the result last.
        origins: Literal index -> origin; literals without one are constants.
    """

    start: int
    end: int
    node: Node
    result_text: str
    trace: tuple[Fraction, ...]
    origins: Mapping[int, Origin]

    @property
    def result(self) -> Fraction:
        """The exact value of the line."""
        return self.trace[-1]


def parse_lines(solution: str) -> list[Line]:
    """Return the calculator lines of a solution, without origins.

    Raises:
        RefusalError: There is none, or one is not exact plain arithmetic over numbers from 0 up.
    """
    if solution.count("<<") == 0:
        raise RefusalError("the solution has no calculator lines")
    lines = []
    for match in _LINE.finditer(solution):
        expression, result_text = match.group(1), match.group(2).strip()
        try:
            node = parse(expression)
            trace = values(node)
        except ExpressionError as error:
            raise RefusalError("a calculator line is not plain arithmetic") from error
        if not _PLAIN_NUMBER.fullmatch(result_text) or number_value(result_text) != trace[-1]:
            raise RefusalError("a calculator line is not exact")
        if any(value < 0 for value in trace):
            raise RefusalError("a calculator line goes below zero")
        lines.append(Line(*match.span(), node, result_text, tuple(trace), {}))
    if len(lines) != solution.count("<<"):
        raise RefusalError("a calculator line is not plain arithmetic")
    return lines
