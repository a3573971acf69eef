r"""The value inside a phrase: "18 dollars per day", "42 (since 6·7 is 42)", "a 42"."""

import re
from typing import Final, Literal

from grpo_core.rewards.boxes import find_boxes
from grpo_core.rewards.cues import BUT, CLAUSE_END, LABEL, NEGATION, SENTENCE_END
from grpo_core.rewards.modifiers import (
    by_case,
    holds_number,
    is_changed_behind,
    stated,
    without_contrast,
)
from grpo_core.rewards.text_phrases import NOISE, choice_value, text_value
from grpo_core.rewards.units import lookup
from grpo_core.rewards.words import leading_number

Wants = Literal["math", "text", "choice"]
"""What kind of answer the gold asks for."""

NUMBER: Final = re.compile(
    r"(?<![\w.])(?:[-+](?=[\d.$]))?(?:\\?\$|\u20ac|\u00a3)?\s?"
    r"(?:\d{1,3}(?:(?:,|\u00a0)\d{2,3})*(?:,|\u00a0)\d{3}(?!\d)|\d+)?(?:\.\d+|(?<=\d))"
    r"(?:e[-+]?\d+)?(?:\s?/\s?\d+(?![\w/]))?(?:\s?\\?%)?",
    re.IGNORECASE,
)
_MATH: Final = re.compile(r"\$\$(.+?)\$\$|\\\((.+?)\\\)|\\\[(.+?)\\\]|\$([^$\n]+)\$", re.DOTALL)
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,80})\*\*")
_LEAD: Final = re.compile(
    r"(?:\s|[*_`\"]|>(?!\s?[=\d.$\\+-])|\b(?:is|are|be|equal\s+to|equals|given\s+by|as\s+follows|thus|therefore|then"
    r"|it's|it\s+is|that's|that\s+is|we\s+get|i\s+get|simply|just|exactly|indeed|clearly|still|now|definitely|a|an|the|approximately|about"
    r"|roughly|only)\b(?!\s*[)\].,])|(?<![\d.]):)++",
    re.IGNORECASE,
)
_DOUBT: Final = re.compile(
    r"\b(?:maybe|possibly|perhaps|probably|likely|either|even|most\s+likely)\b,?\s*", re.IGNORECASE
)
_SELF_CORRECTION: Final = re.compile(
    r"\b(?:no,?\s+wait|wait,?\s+no|i\s+mean|or\s+rather|correction)\b[\s,:]*(?:it\s+is|it's)?",
    re.IGNORECASE,
)
_INTERJECTION: Final = re.compile(r"(?:no|well|oh|hmm+|yes|so|thus|hence|\w+ly),", re.IGNORECASE)
_ANGLED: Final = re.compile(r"\s*<([^<>=]+)>[\s.*]*\Z")
_TRAIL: Final = '*_`"<>|.,;:'
_BLANK_LINE: Final = re.compile(r"[\s$*_`>#\\\[\](]*\Z")
MAX_PHRASE: Final = 400


def phrase_at(text: str, start: int, limit: int | None = None) -> tuple[str, int]:
    """Return the phrase behind a label and where it ends: this line, or the next with text.

    Args:
        text: Visible text.
        start: Where the label ends.
        limit: Where the next label begins; the phrase ends there at the latest.
    """
    position = start
    for _ in range(6):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position : min(end, position + MAX_PHRASE)]
        if not _BLANK_LINE.match(line) or end == len(text):
            break
        position = end + 1
    stop = SENTENCE_END.search(line)
    cut = stop.start() if stop is not None and stop.start() > 0 else len(line)
    if limit is not None and start < limit < position + cut:
        cut = max(limit - position, 0)
    return line[:cut], position + cut


def value_of(phrase: str, *, wants: Wants = "math") -> str | None:
    """Return the value a phrase states, None when it states none or several.

    Args:
        phrase: What stands behind a label, up to the end of the sentence.
        wants: What the gold is: with `text` words are a value, with `choice` a letter is.
    """
    boxes = find_boxes(phrase)
    if boxes:
        return boxes[-1].content.strip() or None
    lettered = wants == "choice" and choice_value(without_label(_corrected(phrase)).strip(" :"))
    if lettered:
        return lettered
    phrase = _trimmed(_corrected(phrase))
    denied = _denied(phrase)
    if denied is not None:
        return _after_negation(denied)
    if wants == "text":
        return text_value(phrase)
    if wants == "choice":
        return choice_value(phrase)
    if len(phrase) <= MAX_PHRASE:
        phrase = without_contrast(phrase)
    return _math_value(phrase) or _leading_value(phrase)


def without_label(text: str) -> str:
    """Return a text without labels at its beginning: "The answer is 42" is 42."""
    text = text.strip()
    for _ in range(4):
        label = LABEL.match(text)
        if label is None or not text[label.end() :].strip() or NEGATION.search(label[0]):
            return text
        text = text[label.end() :].strip()
    return text


def _corrected(phrase: str) -> str:
    """Return what stands behind a correction within the phrase: "41, no wait, 42"."""
    found = list(_SELF_CORRECTION.finditer(phrase))
    rest = phrase[found[-1].end() :] if found else ""
    return rest if re.search(r"\w", rest) else phrase


def _trimmed(phrase: str) -> str:
    phrase = without_label(phrase)
    phrase = _DOUBT.sub("", phrase)
    if quoted := _ANGLED.match(phrase):
        phrase = quoted[1]
    lead = _LEAD.match(phrase)
    phrase = phrase[lead.end() :] if lead else phrase
    end = len(phrase)
    while end and (phrase[end - 1] in _TRAIL or phrase[end - 1].isspace()):
        end -= 1
    return phrase[:end].strip("*").strip()


def _denied(phrase: str) -> str | None:
    """Return what stands behind a negation at the beginning, None when there is none.

    One word may stand before it ("certainly not 5"), but no value: "6, not 5" denies the 5.
    """
    if found := NEGATION.match(phrase):
        return phrase[found.end() :]
    first, _, rest = phrase.partition(" ")
    found = NEGATION.match(rest)
    contrast = first.endswith(",") and _INTERJECTION.match(first) is None
    return rest[found.end() :] if found and not contrast and not holds_number(first) else None


def _after_negation(phrase: str) -> str | None:
    turn = BUT.search(phrase)
    return value_of(phrase[turn.end() :]) if turn is not None else None


def _math_value(phrase: str) -> str | None:
    """Return the one formula of a phrase in which everything else is words."""
    found = list(_MATH.finditer(phrase))
    if len(found) != 1:
        return None
    match = found[0]
    rest = phrase[: match.start()] + phrase[match.end() :]
    if re.search(r"\d", rest) and match.start() > 0:
        return None
    unit = re.match(r"\s*(%|[A-Za-z]+)", phrase[match.end() :])
    inner = next(group for group in match.groups() if group).strip()
    value = stated(phrase[: match.start()], inner, phrase[match.end() :])
    if value is None:
        return None
    tail = unit[1] if unit and match.start() == 0 and _is_unit(unit[1]) else ""
    return f"{value} {tail}".strip()


def _is_unit(word: str) -> bool:
    return word.lower() not in ("in", "a", "as", "at", "h", "s") and lookup(word) is not None


def _leading_value(phrase: str) -> str | None:
    if not phrase or phrase.lower() in NOISE:
        return None
    if _is_formula(phrase):
        return phrase
    if len(phrase) <= MAX_PHRASE and (cases := by_case(phrase)):
        return cases
    leading = NUMBER.match(phrase)
    if leading is not None and is_changed_behind(phrase[leading.end() :]):
        return None
    if share := _OUT_OF.match(phrase):
        return f"{share[1]}/{share[2]}"
    if _COMPOUND.match(phrase):
        return phrase
    if phrase.count("=") > 1:
        last = phrase.rpartition("=")[2].strip()
        if _is_formula(last) or _is_measured(last):
            return last
    clause = CLAUSE_END.search(phrase)
    if clause is not None and clause.start() > 0:
        head = phrase[: clause.start()].strip()
        if _is_formula(head) or _is_measured(head):
            return head
    numbers = [match for match in NUMBER.finditer(phrase) if match[0].strip()]
    if _is_measured(phrase):
        return phrase
    if len(numbers) == 1:
        lone = numbers[0]
        return stated(phrase[: lone.start()], lone[0].strip(), phrase[lone.end() :])
    if not numbers and (words := _number_words(phrase)):
        return words
    several = len(numbers) > 1 and re.search(r"\bor\b", phrase)
    return phrase if several or "\\" in phrase else None


def _number_words(phrase: str) -> str | None:
    """Return a phrase without digits that is a number in words, with at most three nouns."""
    words = re.findall(r"[a-z]+", phrase.lower())
    signed = bool(words) and words[0] in ("minus", "negative")
    found = leading_number(words[signed:])
    if found is None:
        return None
    rest = words[signed + found[1] :]
    return phrase if len(rest) <= 3 and "of" not in rest[:1] else None


_OUT_OF: Final = re.compile(r"(\d+)\s+out\s+of\s+(\d+)\b", re.IGNORECASE)
_COMPOUND: Final = re.compile(
    r"\d+(?:\.\d+)?\s*[A-Za-z]+(?:\s*,)?\s+(?:and\s+)?\d+(?:\.\d+)?\s*[A-Za-z]+\Z"
)
_FORMULA: Final = re.compile(
    r"(?:\\[a-zA-Z]+|\\.|[\d\s.,:;+\-*/^_=<>()\[\]{}|!%'$\u00a0\u00b0\u20ac\u00a3\u00b1\u00d7\u221a"
    r"\u03c0\u221e\u00bc-\u00be\u00b2\u00b3\u00b9\u2070-\u2079]|(?<![A-Za-z])[A-Za-z]{1,2}(?![A-Za-z])"
    r"|and|sqrt|sin|cos|tan|log)++\Z"
)
_MEASURED: Final = re.compile(
    r"[-+]?(?:\\?\$|\u20ac|\u00a3|\u00a5)?\s?[\d.,/\u00a0]*\d(?:[\u00bc-\u00be])?"
    r"(?:\s?\\?%|\s*[A-Za-z\u00b0/^²³]+(?:\d?[\s-][A-Za-z/]+){0,3})?\Z"
)


def _is_formula(phrase: str) -> bool:
    return len(phrase) <= MAX_PHRASE and _FORMULA.match(phrase) is not None


def _is_measured(phrase: str) -> bool:
    return _MEASURED.match(phrase) is not None


def bold_values(text: str) -> list[str]:
    """Return the bold passages of a text."""
    return [match[1].strip() for match in _BOLD.finditer(text)]
