"""Gold answers: reading them, and saying at ingest which ones cannot be graded against."""

from functools import lru_cache
from typing import Final

from grpo_core.errors import DataContractError
from grpo_core.rewards.answers import (
    Answer,
    Choice,
    Clock,
    Interval,
    Items,
    Opaque,
    Relation,
    Scalar,
    Union,
)
from grpo_core.rewards.boxes import find_boxes
from grpo_core.rewards.characters import to_plain
from grpo_core.rewards.nodes import Sym
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.reading import read_answer, read_choice

ANSWER_TYPES: Final = (
    "number",
    "expression",
    "text",
    "boolean",
    "choice",
    "set",
    "list",
    "tuple",
    "interval",
    "equation",
    "ratio",
    "time",
)
"""What a data set may say about a gold: `set` and `list` split at every comma (`list` and `tuple`
keep their order), `choice` reads a letter, `text` compares words."""

_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    "number": Scalar,
    "expression": (Scalar, Opaque),
    "choice": Choice,
    "set": (Items, Scalar),
    "list": (Items, Scalar),
    "tuple": (Items, Scalar),
    "interval": (Interval, Union, Items, Relation),
    "equation": (Relation, Opaque),
    "ratio": (Clock, Scalar),
    "time": Clock,
}


@lru_cache(maxsize=65_536)
def read_gold(gold: str, answer_type: str | None, options: VerifierOptions) -> Answer | None:
    """Return what a gold says, None when nothing can be graded against it.

    Args:
        gold: Bare, behind `####` in a worked solution, or boxed.
        answer_type: One of `ANSWER_TYPES`, None when unknown.
        options: The grader's choices.

    Raises:
        DataContractError: When the answer type is unknown.
    """
    if answer_type is not None and answer_type not in ANSWER_TYPES:
        raise DataContractError(
            f"answer_type: expected one of {', '.join(ANSWER_TYPES)}, got {answer_type!r}",
            "leave answer_type out when the data set does not know it",
        )
    text = bare_gold(gold)
    if not text:
        return None
    answer = read_answer(text, options, answer_type=answer_type)
    if answer_type is not None and not isinstance(answer, _KINDS.get(answer_type, object)):
        return None
    if isinstance(answer, Scalar) and answer_type is None and _is_letter(answer):
        return read_choice(text) or answer
    return answer


def bare_gold(gold: str) -> str:
    """Return a gold without its marker, box and surplus blanks."""
    text = to_plain(gold)
    if "####" in text:
        text = text.rpartition("####")[2]
    boxes = find_boxes(text)
    return (boxes[-1].content if boxes else text).strip()


def _is_letter(answer: Scalar) -> bool:
    node = answer.node
    return isinstance(node, Sym) and len(node.name) == 1 and node.name in "ABCDEFGHIJ"


def _check_opaque(gold: str, answer_type: str | None, options: VerifierOptions) -> str | None:
    """Have a killable worker parse a gold that only computer algebra reads."""
    from grpo_core.rewards.pool import default_pool

    unreadable = default_pool().check_readable(bare_gold(gold), answer_type, options)
    return f"the gold {gold[:80]!r} cannot be read: {unreadable}" if unreadable else None


def check_gold(
    gold: str, answer_type: str | None = None, *, options: VerifierOptions | None = None
) -> str | None:
    """Return why a gold answer cannot be graded against, None when it can.

    Args:
        gold: The gold answer as the data set has it.
        answer_type: One of `ANSWER_TYPES`, None when unknown.
        options: The grader's choices; None means defaults.
    """
    if answer_type is not None and answer_type not in ANSWER_TYPES:
        return f"unknown answer_type {answer_type!r}"
    if not bare_gold(gold):
        return "the gold is blank"
    options = options or VerifierOptions()
    answer = read_gold(gold, answer_type, options)
    if isinstance(answer, Opaque):
        return _check_opaque(gold, answer_type, options)
    if answer is None:
        return f"the gold {gold[:80]!r} cannot be read" + (
            f" as {answer_type}" if answer_type else ""
        )
    return None
