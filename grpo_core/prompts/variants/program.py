"""A worked solution as a program: which number of each line comes from where.

The calculator lines `<<expression=result>>` are the statements, the numbers of the problem their
inputs. Every number of a line must have exactly one possible origin: a number of the problem, an
earlier result, or a constant that words of the problem explain. Where two origins are possible and
one of them may change, the problem is refused; where a number of the problem could also be a
constant, it is *frozen*: kept as it is, which is right whichever of the two was meant.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from grpo_core.prompts.variants.arithmetic import (
    literals,
    number_value,
)
from grpo_core.prompts.variants.inputs import find_free_inputs
from grpo_core.prompts.variants.lines import Line, Origin, parse_lines
from grpo_core.prompts.variants.numerals import NUMBER, Numeral, find_numerals
from grpo_core.prompts.variants.problem import Problem, RefusalError
from grpo_core.prompts.variants.words import (
    depends_on_values,
    has_compound_number,
    is_fact_like,
    spelled_numbers,
    word_constants,
)

_PLAIN_GOLD = re.compile(NUMBER)


@dataclass(frozen=True, slots=True)
class Mention:
    """A number of the solution's prose; without an origin it stays."""

    start: int
    end: int
    text: str
    origin: Origin | None


@dataclass(frozen=True, slots=True)
class Program:
    """A problem whose every number is accounted for.

    Args:
        problem: The problem.
        numerals: All numbers of its text.
        changing: Indices into `numerals` of those that may change.
        lines: Its calculator lines, in order.
        mentions: The numbers of the solution outside the lines.
    """

    problem: Problem
    numerals: tuple[Numeral, ...]
    changing: tuple[int, ...]
    lines: tuple[Line, ...]
    mentions: tuple[Mention, ...]


def read_program(problem: Problem) -> Program:
    """Return the problem as a program.

    Raises:
        RefusalError: Anything about it is ambiguous.
    """
    solution = problem.solution or ""
    raw_lines = parse_lines(solution)
    numerals = find_numerals(problem.text)
    if numerals is None:
        raise RefusalError("a number of the problem is part of a word, range, time or date")
    if depends_on_values(problem.text):
        raise RefusalError("the way to solve it may depend on the numbers")
    if has_compound_number(problem.text):
        raise RefusalError("a word scales a number of the problem")
    if spelled_numbers(solution) - spelled_numbers(problem.text):
        raise RefusalError("the solution spells a number that the problem does not")
    constants = _explained_constants(problem.text, numerals)
    changing = find_free_inputs(problem.text, numerals, raw_lines, constants)
    lines = _bind_lines(raw_lines, numerals, changing, constants)
    _check_use(problem, numerals, lines)
    mentions = _bind_mentions(solution, numerals, changing, lines, constants)
    return Program(problem, tuple(numerals), tuple(sorted(changing)), lines, mentions)


def _explained_constants(text: str, numerals: Sequence[Numeral]) -> Counter[Fraction]:
    """Value -> how many constants of it words and fractions of the problem explain."""
    constants = word_constants(text)
    for numeral in numerals:
        if numeral.unit == "fraction":
            for value in numeral.aliases:
                constants[value] += 1000
        elif numeral.unit == "cents":
            constants[Fraction(100)] += 1000
    return constants


def _bind_lines(
    lines: Sequence[Line],
    numerals: Sequence[Numeral],
    changing: set[int],
    constants: Mapping[Fraction, int],
) -> tuple[Line, ...]:
    inputs = _input_origins(numerals, changing)
    fixed = {
        value
        for index, numeral in enumerate(numerals)
        if index not in changing
        for value in numeral.aliases
    }
    results: dict[Fraction, Origin] = {}
    used: Counter[Fraction] = Counter()
    bound = []
    for index, line in enumerate(lines):
        origins = {}
        for literal in literals(line.node):
            origin = _origin_of(literal.value, inputs, results, fixed, constants)
            if origin is None and literal.value not in fixed:
                used[literal.value] += 1
            elif origin is not None:
                origins[literal.index] = origin
        if line.result in results or line.result in inputs:
            raise RefusalError("two numbers of the solution have the same value")
        results[line.result] = Origin("result", index)
        bound.append(Line(line.start, line.end, line.node, line.result_text, line.trace, origins))
    if any(times > constants.get(value, 0) for value, times in used.items()):
        raise RefusalError("a constant is used more often than words explain it")
    return tuple(bound)


def _input_origins(numerals: Sequence[Numeral], changing: Iterable[int]) -> dict[Fraction, Origin]:
    return {
        value: Origin("input", index, Fraction(1) if value == numerals[index].value else _PERCENT)
        for index in changing
        for value in numerals[index].aliases
    }


_PERCENT = Fraction(1, 100)


def _origin_of(
    value: Fraction,
    inputs: Mapping[Fraction, Origin],
    results: Mapping[Fraction, Origin],
    fixed: set[Fraction],
    constants: Mapping[Fraction, int],
) -> Origin | None:
    """The one origin of a number, None for a constant."""
    is_constant = value in fixed or value in constants
    origins = [known[value] for known in (inputs, results) if value in known]
    if len(origins) + is_constant > 1:
        raise RefusalError("a number of the solution may come from two places")
    if not origins and not is_constant:
        raise RefusalError("a number of the solution is explained by nothing")
    return origins[0] if origins else None


def _check_use(problem: Problem, numerals: Sequence[Numeral], lines: Sequence[Line]) -> None:
    """Every number of the problem and every result is used, and the last result is the gold."""
    written = Counter(literal.value for line in lines for literal in literals(line.node))
    if any(not any(value in written for value in numeral.aliases) for numeral in numerals):
        raise RefusalError("a number of the problem is not used")
    uses = Counter(origin for line in lines for origin in line.origins.values())
    for index, line in enumerate(lines):
        times = uses[Origin("result", index)]
        if not times and index < len(lines) - 1:
            raise RefusalError("a result is not used")
        if times > 1 and is_fact_like(line.result):
            raise RefusalError("a number of the solution may come from two places")
    if not _PLAIN_GOLD.fullmatch(problem.gold):
        raise RefusalError("the gold is not a plain number")
    if number_value(problem.gold) != lines[-1].result:
        raise RefusalError("the gold is not the last result")


def _bind_mentions(
    solution: str,
    numerals: Sequence[Numeral],
    changing: set[int],
    lines: Sequence[Line],
    constants: Mapping[Fraction, int],
) -> tuple[Mention, ...]:
    inputs = _input_origins(numerals, changing)
    results = {line.result: Origin("result", index) for index, line in enumerate(lines)}
    fixed = {
        value
        for index, numeral in enumerate(numerals)
        if index not in changing
        for value in numeral.aliases
    } | {value for line in lines for value in _constants_of(line)}
    mentions = []
    for start, end in _prose_spans(solution, lines):
        for match in re.finditer(NUMBER, solution[start:end]):
            value = number_value(match.group())
            origin = _origin_of(value, inputs, results, fixed, constants)
            span = (start + match.start(), start + match.end())
            mentions.append(Mention(*span, match.group(), origin))
    return tuple(mentions)


def _constants_of(line: Line) -> list[Fraction]:
    return [item.value for item in literals(line.node) if item.index not in line.origins]


def _prose_spans(solution: str, lines: Sequence[Line]) -> list[tuple[int, int]]:
    edges = [0, *(edge for line in lines for edge in (line.start, line.end)), len(solution)]
    return list(zip(edges[::2], edges[1::2], strict=True))
