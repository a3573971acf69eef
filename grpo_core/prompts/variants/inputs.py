"""Which numbers of a problem are free inputs, certain to mean one thing, and so may change.

All others are *frozen*: kept as they are, which is right whatever they mean.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from grpo_core.prompts.variants.arithmetic import Group, Literal, Node, literals
from grpo_core.prompts.variants.lines import Line
from grpo_core.prompts.variants.numerals import Numeral
from grpo_core.prompts.variants.problem import RefusalError
from grpo_core.prompts.variants.words import is_fact_like, ordinal_neighbours


def find_free_inputs(
    text: str,
    numerals: Sequence[Numeral],
    lines: Sequence[Line],
    constants: Mapping[Fraction, int],
) -> set[int]:
    """Return the indices of the numbers that may change.

    Frozen are: numbers that cannot move (0, 1, fractions, dates, facts), numbers that a word or
    another number of the text also stands for, numbers that may be a fact of the world used beside
    them, numbers so small that they may count the items of a list or the terms of a sum, numbers
    tied to others by a sum or product, and percentages that make up a whole.

    Args:
        text: The problem.
        numerals: Its numbers.
        lines: Its calculator lines.
        constants: Value -> how many constants of it the words explain.

    Raises:
        RefusalError: None may change.
    """
    written = Counter(literal.value for line in lines for literal in literals(line.node))
    occurrences = Counter(value for numeral in numerals for value in set(numeral.aliases))
    largest_count = max(_longest_chain(lines), _longest_list(text))
    related = _related_values([numeral.value for numeral in numerals])
    places = ordinal_neighbours(text)
    frozen_percents = _complementary_percents(numerals)
    changing = set()
    for index, numeral in enumerate(numerals):
        certain = (
            numeral.movable
            and not any(value in constants or occurrences[value] > 1 for value in numeral.aliases)
            and not (is_fact_like(numeral.value) and written[numeral.value] > 1)
            and numeral.value > largest_count
            and numeral.value not in related
            and numeral.value not in places
            and not (numeral.unit == "percent" and frozen_percents)
        )
        if certain:
            changing.add(index)
    if not changing:
        raise RefusalError("no number of the problem is certain to be a free input")
    return changing


def _longest_chain(lines: Sequence[Line]) -> int:
    """The most terms of one sum or product over all lines: a number up to it may count them.

    `(80+90+70)/3` divides by the number of scores; another divisor would need another list.
    """
    lengths: dict[Fraction, int] = {}
    longest = len(lines)
    for line in lines:
        length = max(_terms(line.node, "+-", lengths), _terms(line.node, "*/", {}))
        lengths[line.result] = _terms(line.node, "+-", lengths)
        longest = max(longest, length)
    return longest


def _terms(node: Node, ops: str, lengths: Mapping[Fraction, int]) -> int:
    """Terms of the longest chain of `ops` in a tree; earlier results count as their own chains."""
    if isinstance(node, Group):
        return _terms(node.inner, ops, lengths)
    if isinstance(node, Literal):
        return lengths.get(node.value, 1)
    left, right = _terms(node.left, ops, lengths), _terms(node.right, ops, lengths)
    return left + right if node.op in ops else max(left, right)


def _longest_list(text: str) -> int:
    """The most items that a sentence may list: its commas and two; 0 without a comma."""
    commas = max(len(re.findall(r",(?!\d)", sentence)) for sentence in re.split(r"[.?!]", text))
    return commas + 2 if commas else 0


def _related_values(numbers: Sequence[Fraction]) -> set[Fraction]:
    """Numbers tied to others by a sum or product: changing one alone could contradict the rest."""
    related: set[Fraction] = set()
    distinct = sorted({_narrow(number) for number in numbers})
    present = set(distinct)
    for size in (2, 3):
        for parts in combinations(distinct, size):
            for total in (sum(parts), math.prod(parts)):
                if total in present and total not in parts:
                    related.update(map(Fraction, (*parts, total)))
    for number in distinct:
        if number > 1 and (number * 2 in present or number * number in present):
            tied = {number, number * 2, number * number} & present
            related.update(map(Fraction, tied))
    return related


def _narrow(number: Fraction) -> Fraction | int:
    """An int where it is one: much faster to add and to hash."""
    return int(number) if number.denominator == 1 else number


def _complementary_percents(numerals: Sequence[Numeral]) -> bool:
    """Whether some percentages of the problem add up to the whole."""
    percents = [numeral.value for numeral in numerals if numeral.unit == "percent"]
    return any(
        sum(parts) == 100
        for size in range(2, len(percents) + 1)
        for parts in combinations(percents, size)
    )
