"""Numbers that words stand for: what may explain a constant in a calculation.

Two kinds of words matter. *Counted* words (two, twice, half) explain at most as many constants as
there are words; *units* (week, percent, dozen) may be used again and again.
"""

import re
from collections import Counter
from fractions import Fraction

_CARDINALS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)
_TENS = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh", "twelfth"),
)

_COUNTED: dict[str, tuple[str, ...]] = {
    **{word: (str(value),) for value, word in enumerate(_CARDINALS, start=1)},
    **{word: (str(value),) for value, word in zip(range(30, 100, 10), _TENS, strict=True)},
    **{word: (str(value),) for value, word in enumerate(_ORDINALS, start=1)},
    **{word + "s": (str(value),) for value, word in enumerate(_ORDINALS, start=1)},
    **dict.fromkeys(("half", "halves", "halved", "halfway"), ("2", "1/2")),
    **dict.fromkeys(("third", "thirds"), ("3", "1/3", "2")),
    **dict.fromkeys(("quarter", "quarters"), ("4", "1/4", "25", "3", "3/4", "15")),
    **dict.fromkeys(("twice", "double", "doubles", "doubled", "both", "couple", "pair"), ("2",)),
    **dict.fromkeys(("pairs", "twins", "roundtrip", "either", "duo"), ("2",)),
    **dict.fromkeys(("thrice", "triple", "triples", "tripled", "trio", "triplets"), ("3",)),
    **dict.fromkeys(("quadruple", "quadruples", "quadrupled", "quadruplets"), ("4",)),
    "quintuple": ("5",),
    "once": ("1",),
}
_UNITS: dict[str, tuple[str, ...]] = {
    "dozen": ("12",),
    "dozens": ("12",),
    "score": ("20",),
    "gross": ("144",),
    "hundred": ("100",),
    "hundreds": ("100",),
    "thousand": ("1000",),
    "thousands": ("1000",),
    "million": ("1000000",),
    "percent": ("100",),
    "percentage": ("100",),
    "cent": ("100",),
    "cents": ("100",),
    "decade": ("10",),
    "decades": ("10",),
    "century": ("100",),
    "hour": ("60", "24"),
    "hours": ("60", "24"),
    "hourly": ("24",),
    "minute": ("60",),
    "minutes": ("60",),
    "second": ("60",),
    "seconds": ("60",),
    "day": ("24", "7", "30", "31", "365"),
    "days": ("24", "7", "30", "31", "365"),
    "daily": ("24", "7", "30", "31", "365"),
    "week": ("7", "4", "52", "5"),
    "weeks": ("7", "4", "52", "5"),
    "weekly": ("7", "4", "52"),
    "weekday": ("5",),
    "weekdays": ("5",),
    "weekend": ("2",),
    "weekends": ("2",),
    "fortnight": ("14", "2"),
    "month": ("12", "30", "4", "31"),
    "months": ("12", "30", "4", "31"),
    "monthly": ("12", "30", "4"),
    "year": ("12", "52", "365"),
    "years": ("12", "52", "365"),
    "yearly": ("12", "52", "365"),
    "annual": ("12", "52"),
    "annually": ("12", "52"),
    "foot": ("12", "3"),
    "feet": ("12", "3"),
    "inch": ("12",),
    "inches": ("12",),
    "yard": ("3", "36"),
    "yards": ("3", "36"),
    "pound": ("16",),
    "pounds": ("16",),
    "ounce": ("16",),
    "ounces": ("16",),
    "gallon": ("4", "128", "16", "8"),
    "gallons": ("4", "128", "16", "8"),
    "quarts": ("4",),
    "kilometer": ("1000",),
    "kilometers": ("1000",),
    "meter": ("100", "1000"),
    "meters": ("100", "1000"),
    "centimeters": ("100",),
    "kilogram": ("1000",),
    "kilograms": ("1000",),
    "kg": ("1000",),
    "grams": ("1000",),
    "liter": ("1000",),
    "liters": ("1000",),
    "square": ("2", "4"),
    "rectangle": ("2", "4"),
    "rectangular": ("2", "4"),
    "perimeter": ("2", "4"),
    "triangle": ("3", "2"),
    "triangular": ("3", "2"),
    "cube": ("6", "12"),
    "hexagon": ("6",),
    "dime": ("10",),
    "dimes": ("10",),
    "nickel": ("5",),
    "nickels": ("5",),
    "penny": ("1",),
    "pennies": ("1", "100"),
}
_WORD = re.compile(r"[a-z]+")
_FACTS = frozenset(
    map(Fraction, (*range(1, 13), 14, 15, 16, 20, 24, 25, 26, 28, 30, 31, 36, 40, 50, 52, 60, 90))
) | frozenset(map(Fraction, (100, 144, 180, 360, 365, 366, 1000)))
_VALUE_DEPENDENT = re.compile(
    r"\b(round(s|ed|ing)?|nearest|approximate(ly)?|at (least|most)|minimum|maximum|fewest|"
    r"remainder|left-?over|leftovers?|primes?|odd|consecutive|divisible|digits?|multiples?|"
    r"probability|chance|likely|free|every other|alternat\w+|greatest|least|"
    r"median|mode|even number|sequence|pattern)\b",
    re.IGNORECASE,
)
_HUNDREDS = re.compile(r"\b(hundred|thousand|million)s?\b", re.IGNORECASE)


def word_constants(text: str) -> Counter[Fraction]:
    """Return value -> how many constants the words of a text explain; a unit explains 1000."""
    constants: Counter[Fraction] = Counter()
    for word, times in Counter(_WORD.findall(text.lower())).items():
        for value in _COUNTED.get(word, ()):
            constants[Fraction(value)] += times
        for value in _UNITS.get(word, ()):
            constants[Fraction(value)] += 1000
    if "%" in text:
        constants[Fraction(100)] += 1000
    return constants


def spelled_numbers(text: str) -> frozenset[str]:
    """Return the number words from two up, so that a stale one in a solution is noticed."""
    words = set(_WORD.findall(text.lower()))
    return frozenset(words & {*_CARDINALS[1:], *_TENS})


def ordinal_neighbours(text: str) -> frozenset[Fraction]:
    """Return the values that a place may hang on: `6 weeks. On the seventh week` ties 6 to 7."""
    words = set(_WORD.findall(text.lower()))
    places = [place for place, word in enumerate(_ORDINALS, start=1) if word in words]
    return frozenset(Fraction(place + shift) for place in places for shift in (-1, 0, 1))


def is_fact_like(value: Fraction) -> bool:
    """Whether a number is often a fact of the world (4 wheels, 26 letters) and not of the text."""
    return value in _FACTS


def depends_on_values(text: str) -> bool:
    """Whether the way to solve a problem may change with its numbers (rounding, least, odd)."""
    return bool(_VALUE_DEPENDENT.search(text))


def has_compound_number(text: str) -> bool:
    """Whether a word scales a number beside it: `2 hundred`, `1.5 million`."""
    return bool(_HUNDREDS.search(text))
