"""English number words and the normal form of text answers."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

_UNIT_WORDS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TEN_WORDS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS: Final = {word: value for value, word in enumerate(_UNIT_WORDS.split())}
_TENS: Final = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), start=2)}
_SCALES: Final = {
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
SCALE_WORDS: Final = {**_SCALES, "dozen": 12, "hundred": 100}
_PART_WORDS: Final = "half third quarter fifth sixth seventh eighth ninth tenth"
_PARTS: Final = {
    **{word: value for value, word in enumerate(_PART_WORDS.split(), start=2)},
    "fourth": 4,
}
_MONTH_WORDS: Final = (
    "january february march april may june july august september october november december"
)
_MONTHS: Final = frozenset(_MONTH_WORDS.split())
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_ARTICLES: Final = frozenset({"a", "an", "the"})
_WORD: Final = re.compile(r"[^\W_]+")


def leading_number(words: Sequence[str]) -> tuple[Fraction, int] | None:
    """Return (value, words used) of the number that a word sequence starts with, else None.

    >>> leading_number(["forty", "two", "apples"])
    (Fraction(42, 1), 2)
    >>> leading_number(["two", "thirds"])
    (Fraction(2, 3), 2)
    """
    if words and words[0] in ("dozen", "half"):
        return (Fraction(12), 1) if words[0] == "dozen" else (Fraction(1, 2), 1)
    value, used = _whole_number(words)
    if not used:
        return None
    following = words[used] if used < len(words) else ""
    if following in ("dozen", "dozens"):
        return Fraction(12 * value), used + 1
    part = _PARTS.get(following.removesuffix("s") if following != "halves" else "half")
    if part is not None and 0 < value < 20:
        return Fraction(value, part), used + 1
    return Fraction(value), used


def _whole_number(words: Sequence[str]) -> tuple[int, int]:
    total, current, used, last = 0, 0, 0, 10**15
    for word in words:
        if word in _UNITS and last > 19:
            current += _UNITS[word]
            last = 1
        elif word in _TENS and last > 99:
            current += _TENS[word]
            last = 20
        elif word == "hundred" and 0 < current < 10:
            current, last = current * 100, 100
        elif word in _SCALES and current:
            total, current, last = total + current * _SCALES[word], 0, 1000
        elif word != "and" or not used or last < 100:
            break
        used += 1
    while used and words[used - 1] == "and":
        used -= 1
    return total + current, used


def normal_text(text: str) -> str:
    """Return text in lower case without punctuation, articles and surplus blanks.

    A date keeps its parts in one order, so that "20 June" is "June 20th".
    """
    words = _WORD.findall(_ORDINAL.sub("", text.casefold()))
    if _MONTHS.intersection(words) and any(word.isdigit() for word in words):
        words = sorted(word for word in words if word != "of")
    kept = [word for word in words if word not in _ARTICLES] if len(words) > 1 else words
    return " ".join(kept)
