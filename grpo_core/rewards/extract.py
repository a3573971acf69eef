"""The one answer a completion commits to, or why there is none."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from grpo_core.rewards.cues import (
    AFTERTHOUGHT,
    DENIAL,
    NEGATION,
    POSSIBLE,
    RETRACTION,
    SENTENCE_END,
    WITHDRAWAL,
)
from grpo_core.rewards.json_answers import json_answer
from grpo_core.rewards.modifiers import stated
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.phrases import NUMBER, Wants, bold_values, value_of
from grpo_core.rewards.statements import Statement, find_statements
from grpo_core.rewards.text_phrases import choice_value, chosen_letter
from grpo_core.rewards.visible import visible_text

SameValue = Callable[[str, str], bool]
_LAST_LINE: Final = 2000


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a completion answered.

    Attributes:
        answer: The committed answer, None when there is none.
        candidates: Every distinct value offered, in order.
        hedged: Whether several values were offered without committing to one.
        reason: How the answer was found, or why there is none.
        joinable: Whether the candidates are boxes that may be one list.
    """

    answer: str | None
    candidates: tuple[str, ...]
    hedged: bool
    reason: str
    joinable: bool = False


def _same_text(left: str, right: str) -> bool:
    return left == right


def extract(
    completion: str,
    options: VerifierOptions | None = None,
    *,
    wants: Wants = "math",
    same: SameValue = _same_text,
) -> Extraction:
    r"""Return the answer a completion commits to.

    The last statement counts when it takes back what came before, or when it commits more
    strongly than every differing statement before it. Otherwise the completion hedges.

    Args:
        completion: The whole completion.
        options: The grader's choices; None means defaults.
        wants: What the gold is.
        same: Whether two stated values are the same value.

    >>> extract(r"First \boxed{12}. Wait, a sign is missing: \boxed{-12}").answer
    '-12'
    """
    options = options or VerifierOptions()
    text = visible_text(completion, options).strip()
    if not text:
        return Extraction(None, (), False, "no visible text")
    statements = find_statements(text, wants=wants, accept_unterminated=options.accept_unterminated)
    if not statements and (value := json_answer(text)) is not None:
        return Extraction(value, (value,), False, "the answer field of a JSON object")
    if statements:
        return _committed(text, statements, options, wants, same)
    return _unmarked(text, options, wants)


def _distinct(values: list[str], same: SameValue) -> tuple[str, ...]:
    kept: list[str] = []
    for value in values[-40:]:
        if not any(same(value, other) for other in kept):
            kept.append(value)
    return tuple(kept)


def _committed(
    text: str,
    statements: list[Statement],
    options: VerifierOptions,
    wants: Wants,
    same: SameValue,
) -> Extraction:
    last = statements[-1]
    candidates = _distinct([s.value for s in statements if s.value is not None], same)
    if last.value is None:
        return Extraction(None, candidates, False, "the answer was cut off by the end of the text")
    if (second := AFTERTHOUGHT.match(text, last.end)) and not same(second["value"], last.value):
        offered = (*candidates, second["value"].rstrip(".,"))
        return Extraction(None, offered, True, "another value is offered behind the answer")
    if WITHDRAWAL.search(text, last.end):
        return _withdrawn(text, last, candidates, options, wants)
    value = last.value
    rivals = [s for s in statements[:-1] if s.value is None or not same(s.value, value)]
    if not rivals:
        return Extraction(value, candidates, False, "one answer stated")
    between = text[rivals[-1].end : last.end]
    if RETRACTION.search(between):
        return Extraction(value, candidates, False, "the last answer takes back the one before")
    if last.rank > max(rival.rank for rival in rivals):
        return Extraction(value, candidates, False, "the last answer is marked as final")
    reason = f"{len(candidates)} different answers, none taken back"
    return Extraction(None, candidates, True, reason, joinable=True)


def _withdrawn(
    text: str,
    last: Statement,
    candidates: tuple[str, ...],
    options: VerifierOptions,
    wants: Wants,
) -> Extraction:
    later = _unmarked(text[last.end :], options, wants)
    if later.answer is not None and not later.hedged:
        return Extraction(
            later.answer,
            (*candidates, *(c for c in later.candidates if c not in candidates)),
            False,
            "the marked answer was taken back for this one",
        )
    return Extraction(None, candidates, False, "the answer was taken back without another")


def _last_sentence(text: str) -> str:
    tail = text[-_LAST_LINE:].rstrip()
    ends = [match.end() for match in SENTENCE_END.finditer(tail) if tail[match.end() :].strip()]
    return tail[ends[-1] :].strip() if ends else tail.strip()


def _unmarked(text: str, options: VerifierOptions, wants: Wants) -> Extraction:
    """Return the answer of a text that marks none, by the `fallback` rule."""
    text = text.strip()
    if options.fallback == "none" or not text:
        return Extraction(None, (), False, "no answer marked")
    if wants == "text":
        return _short_text(text)
    if wants == "choice":
        return _lone_choice(text)
    if options.fallback == "last_number":
        found = [match[0].strip() for match in NUMBER.finditer(text) if match[0].strip()]
        if not found:
            return Extraction(None, (), False, "no number")
        return Extraction(found[-1], (found[-1],), False, "the last number of the text")
    return _concluded(_last_sentence(text))


def _short_text(text: str) -> Extraction:
    sentence = _last_sentence(text)
    if sentence != text.strip() or len(text.split()) > 12:
        return Extraction(None, (), False, "no answer marked")
    value = value_of(sentence, wants="text")
    return Extraction(value, (value,) if value else (), False, "the whole text is the answer")


def _lone_choice(text: str) -> Extraction:
    """Return the choice a short text starts with, or that its last sentence ends on."""
    sentence = _last_sentence(text)
    value = chosen_letter(sentence)
    if value is None and len(text.split()) <= 12 and not NEGATION.search(text):
        value = choice_value(text)
    if value is None:
        return Extraction(None, (), False, "no choice marked")
    return Extraction(value, (value,), False, "the choice of an unmarked text")


def _concluded(sentence: str) -> Extraction:
    """Return the one value that the last sentence of an unmarked text ends on."""
    if NEGATION.search(sentence) or DENIAL.search(sentence):
        return Extraction(None, (), False, "the last sentence denies something")
    numbers = [match[0].strip() for match in NUMBER.finditer(sentence) if match[0].strip()]
    distinct = tuple(dict.fromkeys(numbers))
    if POSSIBLE.search(sentence) and len(distinct) > 1:
        return Extraction(None, distinct, True, f"{len(distinct)} values offered as possible")
    bold = bold_values(sentence)
    if len(bold) == 1 and (value := value_of(bold[0])):
        before, _, after = sentence.partition(f"**{bold[0]}**")
        value = stated(before, value, after)
        if value is None:
            return Extraction(None, distinct, False, "the words around the bold value change it")
        return Extraction(value, (value,), False, "the bold value of the last sentence")
    head, equals, right = sentence.rpartition("=")
    if equals and re.search(r"\d", right):
        value = value_of(right)
        if value is not None and _ends_well(right):
            return Extraction(value, (value,), False, "the result of the last equation")
    value = value_of(sentence) if not head else None
    if value is not None and not re.search(r"[\d\\]|[^\x00-\x7f]|^[a-zA-Z]$", value):
        value = None
    single = len(distinct) <= 1 or value == sentence.strip(" .*$")
    if value is not None and single and _ends_well(sentence):
        return Extraction(value, (value,), False, "the one value of the last sentence")
    return Extraction(None, distinct, False, "no answer marked and no single value at the end")


def _ends_well(sentence: str) -> bool:
    """Whether a sentence is finished: by a stop, a number, a bracket or a unit."""
    return re.search(r"(?:[.!?\u3002*)}$%\]]|\d\W{0,3}|\d\s*[^\W\d]+)\s*\Z", sentence) is not None
