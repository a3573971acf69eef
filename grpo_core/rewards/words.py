"""English number words and the normal form of text answers."""

import re
from collections.abc import Sequence
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
_ARTICLES: Final = frozenset({"a", "an", "the"})
_WORD: Final = re.compile(r"[^\W_]+")


def leading_number(words: Sequence[str]) -> tuple[int, int] | None:
    """Return (value, words used) of the number that a word sequence starts with, else None.

    >>> leading_number(["forty", "two", "apples"])
    (42, 2)
    """
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
        elif word == "and" and used and last >= 100:
            pass
        else:
            break
        used += 1
    while used and words[used - 1] == "and":
        used -= 1
    return (total + current, used) if used else None


def normal_text(text: str) -> str:
    """Return text in lower case without punctuation, articles and surplus blanks."""
    words = _WORD.findall(text.casefold())
    kept = [word for word in words if word not in _ARTICLES] if len(words) > 1 else words
    return " ".join(kept)
