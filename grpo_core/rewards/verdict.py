"""Verdicts: what a grader says about one completion, and what that is worth."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

VERIFIER_VERSION: Final = 2
"""Bumped whenever any verdict can change; it enters the key of every stored verdict."""


class Label(StrEnum):
    """The seven verdicts. Truncation is a finish reason, not a verdict."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNPARSEABLE = "unparseable"
    HEDGED = "hedged"
    TIMEOUT = "timeout"
    ERROR = "error"
    GOLD_UNPARSEABLE = "gold_unparseable"


_REWARDS: Final[dict[Label, float | None]] = {
    Label.CORRECT: 1.0,
    Label.WRONG: 0.0,
    Label.UNPARSEABLE: 0.0,
    Label.HEDGED: 0.0,
    Label.TIMEOUT: None,
    Label.ERROR: None,
    Label.GOLD_UNPARSEABLE: None,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One graded completion.

    Attributes:
        label: The verdict.
        reward_raw: 1.0 for correct; 0.0 for wrong, unparseable, hedged; any finite number from a
            reward function that gives one; None for timeout, error and gold_unparseable, which
            leave the baseline and are counted.
        extracted: The answer the completion committed to, None when there is none.
        candidates: Every distinct answer the completion offered, in order.
        reason: One sentence on how the verdict came about.
        seconds: Wall-clock seconds the grading took.
        confidence: How sure the verifier is, in [0, 1]; None when it does not say.
        share_passed: Share of a program's tests that passed, in [0, 1]; None without tests.
    """

    label: Label
    reward_raw: float | None
    extracted: str | None = None
    candidates: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    confidence: float | None = None
    share_passed: float | None = None


def reward_of(label: Label) -> float | None:
    """Return the raw reward of a verdict: 1.0, 0.0 or None for "no reward"."""
    return _REWARDS[label]
