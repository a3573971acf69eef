"""Process credit for solutions with calculator lines: `<<3+4=7>>`, each line recomputed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from grpo_core.errors import ConfigError
from grpo_core.rewards.algebra import UndefinedError, canonical
from grpo_core.rewards.characters import to_plain
from grpo_core.rewards.expression import parse_expression
from grpo_core.rewards.grouping import merge_groups
from grpo_core.rewards.nodes import Node, Num, Op, TooLargeError
from grpo_core.rewards.tokens import UnreadableError, clean, tokenize
from grpo_core.rewards.verdict import Label, Verdict

_LINE: Final = re.compile(r"<<([^<>\n]{1,200})>>")
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")
_MAX_LINES: Final = 200


@dataclass(frozen=True, slots=True)
class GradedRules:
    """What a process is worth. The defaults are the four steps 1.0, 0.8, 0.3 and 0.

    Attributes:
        flawed: Correct answer, but a wrong line, no line at all, or not concise.
        partial: Wrong answer with a partly right process.
        partial_fraction: Least share of right lines (of the reference's results, when there is a
            reference) for a process to count as partly right.
        concise_factor: Most lines, as a multiple of the reference's, of a concise solution.
        max_lines: Most lines of a concise solution when there is no reference.
        similarity_weight: Added per unit of similarity to the reference's results; a wrong answer
            stays below a correct one whatever it is.
    """

    flawed: float = 0.8
    partial: float = 0.3
    partial_fraction: float = 0.5
    concise_factor: float = 2.0
    max_lines: int = 12
    similarity_weight: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.partial < self.flawed <= 1:
            raise ConfigError(
                f"process credit needs 0 <= partial < flawed <= 1, "
                f"got partial={self.partial}, flawed={self.flawed}"
            )


@dataclass(frozen=True, slots=True)
class ProcessCheck:
    """The calculator lines of one solution.

    Attributes:
        lines: Lines found.
        right: Lines whose result is what their left side gives (rounded results count).
        grounded: Distinct right lines that use a number of the problem or an earlier result.
        results: The results of the right lines, in order.
        repeated: Lines that say what an earlier line said.
    """

    lines: int
    right: int
    grounded: int
    results: tuple[Fraction, ...]
    repeated: int


def check_process(completion: str, problem: str | None = None) -> ProcessCheck:
    """Return how the calculator lines of a solution fare when recomputed.

    Args:
        completion: The solution's text; at most its first 200 lines are looked at.
        problem: The problem's text; None lets every operand count as given.
    """
    found = _LINE.findall(to_plain(completion))[:_MAX_LINES]
    known = None if problem is None else set(_numbers(to_plain(problem)))
    right, grounded, seen = 0, 0, set()
    results: list[Fraction] = []
    for line in found:
        checked = _recomputed(line)
        spelled = "".join(line.split())
        if checked is not None:
            operands, result = checked
            right += 1
            is_grounded = known is None or bool(operands & (known | set(results)))
            grounded += is_grounded and spelled not in seen
            results.append(result)
        seen.add(spelled)
    return ProcessCheck(len(found), right, grounded, tuple(results), len(found) - len(seen))


def _recomputed(line: str) -> tuple[set[Fraction], Fraction] | None:
    """Return (operands, result) of a right line with an operation in it, None otherwise."""
    left, equals, right = line.rpartition("=")
    if not equals:
        return None
    tree, stated = _tree(left), _tree(right)
    if tree is None or stated is None or not isinstance(tree, Op):
        return None
    try:
        value, claimed = canonical(tree).constant(), canonical(stated).constant()
    except (UndefinedError, TooLargeError):
        return None
    if value is None or claimed is None or not _rounds_to(value, claimed, right):
        return None
    return set(_leaves(tree)), claimed


def _tree(text: str) -> Node | None:
    try:
        tokens = merge_groups(tokenize(clean(text.replace("$", ""))), commas=True)
        return parse_expression(tokens)
    except UnreadableError:
        return None


def _rounds_to(value: Fraction, claimed: Fraction, text: str) -> bool:
    """Whether a stated result is the value, or the value cut or rounded to its decimals."""
    decimals = len(text.partition(".")[2].rstrip(" )%"))
    step = Fraction(1, 10**decimals) if decimals < 30 else Fraction(0)
    return value == claimed or (decimals > 0 and abs(value - claimed) < step)


def _leaves(node: Node) -> Iterable[Fraction]:
    if isinstance(node, Num):
        yield node.value
    elif isinstance(node, Op):
        for part in node.args:
            yield from _leaves(part)


def _numbers(text: str) -> Iterable[Fraction]:
    for match in _NUMBER.finditer(text):
        yield Fraction(match[0].replace(",", ""))


def similarity(results: Iterable[Fraction], reference: Iterable[Fraction]) -> float:
    """Return how much of two processes' results coincides (Dice of the sets), in [0, 1]."""
    mine, theirs = set(results), set(reference)
    return 2 * len(mine & theirs) / (len(mine) + len(theirs)) if mine or theirs else 0.0


def reward_graded(
    verdict: Verdict,
    completion: str,
    *,
    problem: str | None = None,
    reference: str | None = None,
    rules: GradedRules | None = None,
) -> float | None:
    """Return the verdict with process credit: 1.0, 0.8, 0.3 or 0.0 by default; None for null.

    Args:
        verdict: The verdict on the completion.
        completion: Its text.
        problem: The problem's text, so that invented calculations earn nothing.
        reference: The reference solution, when there is one.
        rules: What a process is worth; None means defaults.
    """
    rules = rules or GradedRules()
    if verdict.reward_raw is None:
        return None
    check = check_process(completion, problem)
    expected = check_process(reference) if reference is not None else None
    likeness = similarity(check.results, expected.results) if expected is not None else 0.0
    bonus = rules.similarity_weight * likeness
    if verdict.label is Label.CORRECT:
        value = 1.0 if _is_concise(check, expected, rules) else rules.flawed
        return min(1.0, value + bonus)
    if verdict.label is Label.WRONG and _is_partial(check, expected, rules):
        return min(rules.partial + bonus, (rules.partial + rules.flawed) / 2)
    return 0.0


def _is_concise(check: ProcessCheck, expected: ProcessCheck | None, rules: GradedRules) -> bool:
    if not check.lines or check.right < check.lines or check.repeated:
        return False
    most = rules.max_lines
    if expected is not None and expected.lines:
        most = max(1, int(rules.concise_factor * expected.lines))
    return check.lines <= most


def _is_partial(check: ProcessCheck, expected: ProcessCheck | None, rules: GradedRules) -> bool:
    if not check.grounded:
        return False
    if expected is not None and expected.results:
        wanted = set(expected.results)
        reached = len(wanted & set(check.results)) / len(wanted)
        return reached >= rules.partial_fraction
    return check.grounded / check.lines >= rules.partial_fraction
