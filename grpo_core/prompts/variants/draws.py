"""Which numbers may replace the numbers of a problem: same size, same look, same order."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from grpo_core.prompts.variants.numerals import Numeral, format_like
from grpo_core.prompts.variants.program import Program

_CAPS = (
    ("day", (7, 31)),
    ("hour", (8, 12, 24)),
    ("minute", (60,)),
    ("second", (60,)),
    ("week", (4, 52)),
    ("month", (12,)),
    ("percent", (100, 200)),
)
"""Word after a number -> bounds that its replacement keeps to when the number itself does."""
_SPOKEN_WITH_AN = re.compile(r"8|(11|18)(,|$)")


@dataclass(frozen=True, slots=True)
class Limits:
    """What substitution may put in.

    Args:
        max_number: Largest number of a problem; None for no bound but the original's digits.
        max_result: Largest intermediate or final result; None for no bound.
    """

    max_number: int | None = None
    max_result: int | None = None


@dataclass(frozen=True, slots=True)
class Domain:
    """The replacements of one number: `scaled` / 10**`decimals`.

    Args:
        original: The number.
        scaled: Candidates, scaled to integers.
        decimals: Decimals that the number is written with.
        with_an: Whether "an" stands before it; None without an article.
    """

    original: Numeral
    scaled: range
    decimals: int
    with_an: bool | None

    def draw(self, rng: np.random.Generator) -> Fraction | None:
        """One candidate, None when it is the number itself or would need another article."""
        scaled = self.scaled[int(rng.integers(len(self.scaled)))]
        value = Fraction(scaled, 10**self.decimals)
        if value == self.original.value:
            return None
        if self.with_an is not None:
            written = format_like(self.original.text, value) or ""
            if _is_spoken_with_an(written) != self.with_an:
                return None
        return value


def domains(program: Program, limits: Limits) -> dict[int, Domain]:
    """Return numeral index -> domain, for the changing numbers that have a second candidate."""
    found = {
        index: _domain(program.problem.text, program.numerals[index], limits)
        for index in program.changing
    }
    return {index: domain for index, domain in found.items() if len(domain.scaled) > 1}


def draw_inputs(
    program: Program, choices: Mapping[int, Domain], rng: np.random.Generator
) -> dict[int, Fraction] | None:
    """Return numeral index -> new value of every changing number, None for a draw that misses."""
    inputs = {index: program.numerals[index].value for index in program.changing}
    for index, domain in choices.items():
        value = domain.draw(rng)
        if value is None:
            return None
        inputs[index] = value
    return inputs if _keeps_order(program.numerals, inputs) else None


def _domain(text: str, numeral: Numeral, limits: Limits) -> Domain:
    decimals = len(numeral.text.partition(".")[2])
    scaled = int(numeral.value * 10**decimals)
    size = 10 ** (len(str(scaled)) - 1)
    step = _roundness(scaled)
    lowest = 2 if size == 1 and not decimals else size
    highest = size * 10 - 1
    bounds = [_cap(text, numeral), limits.max_number]
    highest = min([highest, *(bound * 10**decimals for bound in bounds if bound is not None)])
    first = -(-lowest // step) * step
    article = re.search(r"\b(an?)\s$", text[: numeral.start].lower())
    with_an = _is_spoken_with_an(numeral.text) if article else None
    return Domain(numeral, range(first, highest + 1, step), decimals, with_an)


def _roundness(number: int) -> int:
    """The step that keeps trailing zeros, or multiples of five from ten on."""
    step = 1
    while number % (step * 10) == 0:
        step *= 10
    return 5 if step == 1 and number % 5 == 0 and number >= 10 else step


def _cap(text: str, numeral: Numeral) -> int | None:
    """A bound from the unit that follows: no 9 days a week, no 140%."""
    following = re.match(r"[\s-]*([a-z]+)", text[numeral.end :].lower())
    word = "percent" if numeral.unit == "percent" else (following.group(1) if following else "")
    for unit, bounds in _CAPS:
        if word.startswith(unit):
            return next((bound for bound in bounds if numeral.value <= bound), None)
    return None


def _is_spoken_with_an(written: str) -> bool:
    """Whether English says "an" before a number: an 8, an 11, an 80."""
    return bool(_SPOKEN_WITH_AN.match(written))


def _keeps_order(numerals: Sequence[Numeral], inputs: Mapping[int, Fraction]) -> bool:
    """Whether each pair of numbers compares as before, percentages among themselves.

    Percentages that left room below 100 in sum still do.
    """
    for among_percents in (True, False):
        pairs = [
            (numeral.value, inputs.get(index, numeral.value))
            for index, numeral in enumerate(numerals)
            if (numeral.unit == "percent") is among_percents
        ]
        for (a, x), (b, y) in combinations(pairs, 2):
            if (a < b) != (x < y) or (a > b) != (x > y):
                return False
        old, new = (sum(pair[side] for pair in pairs) for side in (0, 1))
        if among_percents and old < 100 <= new:
            return False
    return True
