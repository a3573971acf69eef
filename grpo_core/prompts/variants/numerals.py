"""Numbers written in digits: where they stand in a text, what they mean, how to rewrite them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from grpo_core.prompts.variants.arithmetic import number_value

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,]*\d)|\d+(?:\.\d+)?|\.\d+"
_NUMERAL = re.compile(rf"(?P<fraction>\d+\s?/\s?\d+)|(?P<number>{NUMBER})")
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_MONTHS = (
    "jan(uary)?|feb(ruary)?|march|april|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|"
    "nov(ember)?|dec(ember)?"
)
_LABEL_BEFORE = re.compile(
    rf"(\b({_MONTHS})|\b(year|no\.|number|route|highway|grade|chapter|room|level|class|team|"
    r"channel|bus|version|volume|size|day|week|month|part|step|equals?|equals? to)|#)\s?$",
    re.IGNORECASE,
)
_CLOCK_AFTER = re.compile(
    rf"\s?(a\.?m\b|p\.?m\b|o'?clock|noon|midnight|({_MONTHS})\b)", re.IGNORECASE
)
_KNOWN_AFTER = re.compile(
    r"(7[ -]days?|24[ -]hours?|60[ -](minutes?|seconds?)|12[ -](months?|inch(es)?)|52[ -]weeks?|"
    r"36[56][ -]days?|100[ -](cents?|percent)|3[ -]feet|16[ -]ounces?|4[ -]quarters?|"
    r"\d+[ -](eyes|legs|arms|wings|fingers|toes|wheels|tires|sides|corners|letters))\b",
    re.IGNORECASE,
)
_YEARS = range(1700, 2101)


@dataclass(frozen=True, slots=True)
class Numeral:
    """One number in a text.

    Args:
        start: Offset of its first character.
        end: Offset after its last.
        text: As written, thousands separators included.
        value: Its exact value; of a fraction, the quotient.
        unit: `percent`, `cents`, `fraction` or empty.
        movable: False where another number would make the text odd or false: 0 and 1, fractions,
            dates, times of day, labels, and facts such as 7 days a week.
    """

    start: int
    end: int
    text: str
    value: Fraction
    unit: str
    movable: bool

    @property
    def aliases(self) -> tuple[Fraction, ...]:
        """Values by which a calculation may refer to it: 25% also as 0.25, 1/4 also as 4."""
        if self.unit in ("percent", "cents"):
            return (self.value, self.value / 100)
        if self.unit == "fraction":
            above, below = (Fraction(part) for part in self.text.split("/"))
            return (self.value, below, above)
        return (self.value,)


def find_numerals(text: str) -> list[Numeral] | None:
    """Return the numbers of a text in order; None when one is glued to letters or signs (5th, 3x).

    Ranges (3-5), times (3:30) and digits beyond ASCII count as glued, too.
    """
    if not text.isascii() and any(char.isdigit() and not char.isascii() for char in text):
        return None
    numerals = []
    for match in _NUMERAL.finditer(text):
        if _is_glued(text, match.start(), match.end()):
            return None
        numeral = _read(text, match)
        if numeral is None:
            return None
        numerals.append(numeral)
    return numerals


def format_like(original: str, value: Fraction) -> str | None:
    """Return `value` written as `original` was: decimals, separators, leading zero.

    None when it needs more decimals than the original has. A whole number keeps its zeros only
    where they look like money, two decimals.

    >>> format_like("12.50", Fraction(9))
    '9.00'
    >>> format_like("2.5", Fraction(10))
    '10'
    >>> format_like("0.5", Fraction(1, 4)) is None
    True
    """
    decimals = len(original.partition(".")[2])
    scaled = value * 10**decimals
    if scaled.denominator != 1 or scaled < 0:
        return None
    if value.denominator == 1 and decimals != 2:
        decimals, scaled = 0, value
    whole, rest = divmod(scaled.numerator, 10**decimals)
    digits = f"{whole:,}" if "," in original else str(whole)
    if original.startswith(".") and whole == 0:
        digits = ""
    return f"{digits}.{rest:0{decimals}d}" if decimals else digits


def rewrite(text: str, edits: Sequence[tuple[int, int, str | None]]) -> str | None:
    """Return `text` with the spans (start, end, new text) replaced; spans do not overlap.

    None when a new text is None: a number that `format_like` could not write.
    """
    parts: list[str] = []
    position = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        if new is None:
            return None
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def _is_glued(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if before.isalnum() or (before and before in "._:/^\\#" + _DASHES):
        return True
    if after.isalnum() or (after and after in "_:/^\\\u00b0"):
        return True
    follows_digit = text[end + 1 : end + 2].isdigit()
    return bool(after) and after in ".," + _DASHES and follows_digit


def _read(text: str, match: "re.Match[str]") -> Numeral | None:
    start, end, written = match.start(), match.end(), match.group()
    if match.group("fraction"):
        above, below = (int(part) for part in written.split("/"))
        mixed = re.search(r"\d\s$", text[:start])
        if not below or mixed:
            return None
        return Numeral(start, end, written, Fraction(above, below), "fraction", False)
    value = number_value(written)
    unit = _unit_after(text[end : end + 10])
    movable = value > 1 or written.lstrip("0").startswith(".")
    movable = movable and value != 0 and not _is_label(text, start, end, value, written)
    return Numeral(start, end, written, value, unit, movable)


def _unit_after(rest: str) -> str:
    if re.match(r"\s?(%|percent\b|per cent\b)", rest, re.IGNORECASE):
        return "percent"
    return "cents" if re.match(r"[ -]?(cents?\b|\u00a2)", rest, re.IGNORECASE) else ""


def _is_label(text: str, start: int, end: int, value: Fraction, written: str) -> bool:
    """A date, time of day, name or known fact."""
    before, after = text[max(0, start - 20) : start], text[end : end + 20]
    is_year = "," not in written and value.denominator == 1 and int(value) in _YEARS
    return bool(
        (is_year and not before.endswith("$"))
        or _LABEL_BEFORE.search(before)
        or _CLOCK_AFTER.match(after)
        or _KNOWN_AFTER.match(text[start : end + 12])
    )
