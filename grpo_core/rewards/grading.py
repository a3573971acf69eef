"""Grade one completion against one gold answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from grpo_core.rewards.answers import Answer, Choice, Items, Text
from grpo_core.rewards.equivalence import Comparison
from grpo_core.rewards.extract import Extraction, extract
from grpo_core.rewards.gold import read_gold
from grpo_core.rewards.nodes import TooLargeError
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.phrases import Wants
from grpo_core.rewards.reading import read_answer, read_choice
from grpo_core.rewards.scalars import NeedsSymbolic, SymbolicEqual
from grpo_core.rewards.verdict import Label, Verdict, reward_of

DEFAULT_OPTIONS: Final = VerifierOptions()
_SPLITTING: Final = ("set", "list", "tuple", "text", "boolean", "choice")
"""Answer types that change how an answer is read, not only what a gold may be."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a killable process is asked: does this answer equal this gold?

    Attributes:
        answer: The extracted answer.
        gold: The gold answer.
        answer_type: What the data set knows about its golds.
        options: The grader's choices.
        full: Whether it takes computer algebra.
    """

    answer: str
    gold: str
    answer_type: str | None
    options: VerifierOptions
    full: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """A grading that exact arithmetic could not finish.

    Attributes:
        question: What remains to be decided.
        extraction: What the completion answered.
        seconds: Wall-clock seconds spent so far.
    """

    question: Question
    extraction: Extraction
    seconds: float


def grade_exactly(
    completion: str, gold: str, answer_type: str | None, options: VerifierOptions
) -> Verdict | Pending:
    """Return the verdict when exact arithmetic in this process decides, else what is pending.

    Never runs computer algebra, never starts a process; time is linear in the length.
    """
    start = time.perf_counter()
    read = read_gold(gold, answer_type, options)
    if read is None:
        empty = Extraction(None, (), False, "the gold answer cannot be read")
        return _verdict(Label.GOLD_UNPARSEABLE, empty, start)
    wants = _wanted(read)
    found = extract(completion, options, wants=wants, same=_same_value(options, answer_type))
    if found.hedged and found.joinable:
        found = _rejoined(found, read, options)
    if found.answer is None:
        label = Label.HEDGED if found.hedged else Label.UNPARSEABLE
        return _verdict(label, found, start)
    try:
        label, reason = judge(found.answer, gold, answer_type, options, None)
    except NeedsSymbolic as need:
        question = Question(found.answer, gold, answer_type, options, need.full)
        return Pending(question, found, time.perf_counter() - start)
    return _verdict(label, found, start, reason)


def _wanted(gold: Answer) -> Wants:
    if isinstance(gold, Text):
        return "text"
    return "choice" if isinstance(gold, Choice) else "math"


def judge(
    answer: str,
    gold: str,
    answer_type: str | None,
    options: VerifierOptions,
    symbolic: SymbolicEqual | None,
) -> tuple[Label, str]:
    """Return the label of an extracted answer and the reason.

    Raises:
        NeedsSymbolic: When only computer algebra can tell and `symbolic` is None.
    """
    expected = read_gold(gold, answer_type, options)
    if expected is None:
        return Label.GOLD_UNPARSEABLE, "the gold answer cannot be read"
    given = _given(answer, expected, answer_type, options)
    if given is None:
        return Label.UNPARSEABLE, "the answer cannot be read"
    comparison = Comparison(options, symbolic)
    try:
        if comparison.same(given, expected):
            return Label.CORRECT, "equal to the gold"
        if _is_hedge(given, expected):
            return Label.HEDGED, "several values for a gold of one"
    except TooLargeError as error:
        return Label.UNPARSEABLE, str(error)
    return Label.WRONG, "different from the gold"


def _given(
    answer: str, expected: Answer, answer_type: str | None, options: VerifierOptions
) -> Answer | None:
    if isinstance(expected, Choice):
        choice = read_choice(answer)
        if choice is not None:
            return choice
    if isinstance(expected, Text) and answer_type is None:
        return read_answer(answer, options, answer_type="text")
    if answer_type not in _SPLITTING:
        answer_type = None
    return read_answer(answer, options, answer_type=answer_type)


def _is_hedge(given: Answer, expected: Answer) -> bool:
    if not isinstance(given, Items) or isinstance(expected, Items):
        return False
    return given.kind in ("or", "list")


@lru_cache(maxsize=64)
def _same_value(options: VerifierOptions, answer_type: str | None) -> Callable[[str, str], bool]:
    comparison = Comparison(options)

    def same(left: str, right: str) -> bool:
        if left == right:
            return True
        first = read_answer(left, options, answer_type=answer_type)
        second = read_answer(right, options, answer_type=answer_type)
        if first is None or second is None:
            return False
        try:
            return comparison.same(first, second) or comparison.same(second, first)
        except (NeedsSymbolic, TooLargeError):
            return False

    return same


def _rejoined(found: Extraction, gold: Answer, options: VerifierOptions) -> Extraction:
    """Read several boxes as one list when the gold lists exactly that many values."""
    if not options.join_boxes or not isinstance(gold, Items) or gold.kind == "tuple":
        return found
    if len(gold.items) != len(found.candidates):
        return found
    joined = ", ".join(found.candidates)
    return Extraction(joined, found.candidates, False, "boxes read as one list")


def _verdict(label: Label, found: Extraction, start: float, reason: str = "") -> Verdict:
    seconds = time.perf_counter() - start
    text = f"{found.reason}; {reason}" if reason else found.reason
    return Verdict(label, reward_of(label), found.answer, found.candidates, text, seconds)


def finished(pending: Pending, label: Label, reason: str, seconds: float) -> Verdict:
    """Return the verdict of a pending grading once a process has decided it."""
    found = pending.extraction
    text = f"{found.reason}; {reason}"
    total = pending.seconds + seconds
    return Verdict(label, reward_of(label), found.answer, found.candidates, text, total)


def grade(
    completion: str,
    gold: str,
    *,
    answer_type: str | None = None,
    options: VerifierOptions | None = None,
) -> Verdict:
    r"""Return the verdict on one completion.

    Plain answers are decided here by exact arithmetic. Whatever needs computer algebra runs in a
    process that is killed after its time limit, so this works on any thread and inside asyncio.

    Args:
        completion: The completion's text; it is data and never executed.
        gold: The gold answer, bare or as `#### 42` or boxed.
        answer_type: What the data set knows about its golds, see `ANSWER_TYPES`.
        options: The grader's choices; None means defaults.

    >>> grade("So 5000/4 is 1250, less 16.\n#### 1,234", "1234").label.value
    'correct'
    """
    options = options or DEFAULT_OPTIONS
    verdict = grade_exactly(completion, gold, answer_type, options)
    if isinstance(verdict, Verdict):
        return verdict
    from grpo_core.rewards.pool import default_pool

    return default_pool().decide([verdict])[0]
