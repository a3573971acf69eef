"""Before anything is sampled: does each verifier pay golds, and only golds?

A reward that is inverted, constant or failing looks like a hard problem set until the GPU hours are
gone. Here it is found with a few dozen gradings: the gold of a row, alone and at the end of its
reference solution, must be paid, and the gold of another row must not.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo_core.errors import ConfigError
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.grading import DEFAULT_OPTIONS, grade_exactly
from grpo_core.rewards.verdict import Label, Verdict
from grpo_core.rewards.verifier_names import CODE

Problem = Mapping[str, Any]
CHECKED_ROWS: Final = 16
"""Rows of each verifier that are tried."""
_WRAPPINGS: Final = ("{}", "#### {}", r"\boxed{{{}}}", "<answer>{}</answer>", "```python\n{}\n```")
"""Ways to write an answer; a verifier need understand one of them, and must pay a wrong answer in
none."""
_SHOWN: Final = 3
_HINT: Final = (
    "fix the reward, or set reward.start_check=warn to go on; "
    "grpo grade --selftest FUNCTION tries a function on built-in cases"
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One text that was graded for one row.

    Args:
        problem: The row.
        what: `gold`, `solution` (ends in the gold) or `other gold`.
        verdicts: One for each way of writing it.
    """

    problem: Problem
    what: str
    verdicts: tuple[Verdict, ...]

    @property
    def is_paid(self) -> bool:
        """Whether one way of writing it is correct."""
        return any(verdict.label is Label.CORRECT for verdict in self.verdicts)

    @property
    def is_undecided(self) -> bool:
        """Whether no way of writing it has a reward."""
        return all(verdict.reward_raw is None for verdict in self.verdicts)

    def describe(self) -> str:
        """The row and what was said about it, for an error message."""
        verdict = next((v for v in self.verdicts if v.label is Label.CORRECT), self.verdicts[-1])
        gold = " ".join(str(self.problem.get("gold") or "").split())
        return (
            f"  {self.what} of {self.problem.get('prompt_id') or 'a row'} "
            f"(gold {gold[:40]!r}): {verdict.label}, {verdict.reason[:120]}"
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one verifier.

    Args:
        verifier: Its name.
        what: One sentence.
        attempts: The attempts that show it.
    """

    verifier: str
    what: str
    attempts: tuple[Attempt, ...]

    def __str__(self) -> str:
        shown = [attempt.describe() for attempt in self.attempts[:_SHOWN]]
        return "\n".join([f"verifier {self.verifier}: {self.what}", *shown])


def require_sound(grader: Grader, problems: Sequence[Problem]) -> None:
    """Raise ConfigError unless every verifier of `problems` pays golds and only golds."""
    found = check_verifiers(grader, problems)
    if found:
        raise ConfigError("\n".join(map(str, found)), _HINT)


def check_verifiers(grader: Grader, problems: Sequence[Problem]) -> list[Finding]:
    """Try the verifiers of a problem set on its own golds; none found means that all are sound.

    Rows without a gold are left out: there is nothing to try.

    Args:
        grader: Grades rows.
        problems: Rows in an order that is a function of content; the first of each verifier count.
    """
    groups: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        name = grader.rules.verifier_of(problem)
        if problem.get("gold") and len(groups[name]) < CHECKED_ROWS:
            groups[name].append(problem)
    return [
        finding
        for name, rows in groups.items()
        for finding in _judge(name, list(_attempts(grader, name, rows)))
    ]


def _attempts(grader: Grader, name: str, rows: Sequence[Problem]) -> Iterator[Attempt]:
    """Grade gold, solution with the gold at its end, and another row's gold, in one batch."""
    tries: list[tuple[Problem, str, tuple[str, ...]]] = []
    for index, row in enumerate(rows):
        tries.append((row, "gold", _written(str(row["gold"]))))
        if row.get("solution") and name != CODE:
            ending = tuple(f"{row['solution']}\n{text}" for text in _written(str(row["gold"])))
            tries.append((row, "solution", ending))
        other = _other_gold(rows, index)
        if other is not None:
            tries.append((row, "other gold", _written(other)))
    texts = [text for _, _, written in tries for text in written]
    problems = [row for row, _, written in tries for _ in written]
    verdicts = iter(grader.grade(texts, problems))
    for row, what, written in tries:
        yield Attempt(row, what, tuple(next(verdicts) for _ in written))


def _written(gold: str) -> tuple[str, ...]:
    return tuple(wrapping.format(gold) for wrapping in _WRAPPINGS)


def _other_gold(rows: Sequence[Problem], index: int) -> str | None:
    """The gold of the next row that has another one, or another number when there is no such row.

    Golds that exact arithmetic finds equal, or cannot tell apart, are no other golds.
    """
    own = str(rows[index]["gold"]).strip()
    for step in range(1, len(rows)):
        gold = str(rows[(index + step) % len(rows)]["gold"]).strip()
        if _differ(gold, own):
            return gold
    return f"{int(own) + 1}" if own.isdecimal() and len(own) < 19 else None


def _differ(gold: str, own: str) -> bool:
    if gold == own:
        return False
    verdict = grade_exactly(rf"\boxed{{{gold}}}", own, None, DEFAULT_OPTIONS)
    return isinstance(verdict, Verdict) and verdict.label is not Label.CORRECT


def _judge(name: str, attempts: Sequence[Attempt]) -> list[Finding]:
    """Name the pattern that the verdicts make; single rows only when there is none."""
    right = [attempt for attempt in attempts if attempt.what != "other gold"]
    wrong = [attempt for attempt in attempts if attempt.what == "other gold"]
    if all(attempt.is_undecided for attempt in attempts):
        return [Finding(name, "always fails: it decided nothing", tuple(attempts))]
    unpaid = [attempt for attempt in right if not attempt.is_paid]
    paid_wrong = [attempt for attempt in wrong if attempt.is_paid]
    whole = _pattern(right, wrong)
    if whole:
        return [Finding(name, whole, (*unpaid, *paid_wrong))]
    found = []
    if unpaid:
        sentence = f"does not pay {len(unpaid)} of {len(right)} golds and solutions"
        found.append(Finding(name, sentence, tuple(unpaid)))
    if paid_wrong:
        sentence = f"pays {len(paid_wrong)} of {len(wrong)} golds of other rows"
        found.append(Finding(name, sentence, tuple(paid_wrong)))
    return found


def _pattern(right: Sequence[Attempt], wrong: Sequence[Attempt]) -> str:
    """What is wrong as a whole, from how much more often golds are paid than other rows' golds.

    Each way of writing is looked at apart: an inverted verifier pays whatever it cannot read.
    """
    if not any(attempt.is_paid for attempt in (*right, *wrong)):
        return "is constant: it pays nothing"
    if not wrong:
        return ""
    leanings = [_paid(right, way) - _paid(wrong, way) for way in range(len(_WRAPPINGS))]
    if max(leanings) <= 0 and min(leanings) < 0:
        return "is inverted: it pays golds of other rows and not the row's own"
    if max(leanings) == 0 and all(attempt.is_paid for attempt in wrong):
        return "is constant: it pays every answer, whatever the gold"
    return ""


def _paid(attempts: Sequence[Attempt], way: int) -> float:
    """Share of attempts that are paid in one way of writing."""
    paid = [attempt.verdicts[way].label is Label.CORRECT for attempt in attempts]
    return sum(paid) / len(paid)
