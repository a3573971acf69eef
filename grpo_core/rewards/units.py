"""Units: what may stand behind a number, and how units of one dimension convert."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

from grpo_core.rewards.tokens import Token


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measurement.

    Attributes:
        dimension: Base dimensions and their powers, sorted; empty for a counted noun.
        factor: Multiples of the dimension's base unit.
    """

    dimension: tuple[tuple[str, int], ...]
    factor: Fraction


NOUN: Final = Unit((), Fraction(1))
PERCENT: Final = Unit((("percent", 1),), Fraction(1, 100))

_TABLE: Final = """
length 1 m meter metre
length 1/1000 mm millimeter millimetre
length 1/100 cm centimeter centimetre
length 1/10 dm decimeter decimetre
length 1000 km kilometer kilometre
length 1/1000000 micrometer micrometre micron um
length 1/1000000000 nm nanometer nanometre
length 0.0254 in inch inches
length 0.3048 ft foot feet
length 0.9144 yd yard
length 1609.344 mi mile
time 1 s sec second
time 1/1000 ms millisecond msec
time 60 min minute mins
time 3600 h hr hour hrs
time 86400 day
time 604800 week wk
month 1 month
month 12 year yr
month 120 decade
month 1200 century centuries
mass 1 g gram gramme
mass 1/1000 mg milligram
mass 1000 kg kilogram kilo
mass 1000000 tonne
mass 453.59237 lb lbs pound
mass 28.349523125 oz ounce
ton 1 ton
length^3 1/1000 l L liter litre
length^3 1/1000000 ml mL milliliter millilitre cc
length^3 0.003785411784 gal gallon
length^3 0.000946352946 qt quart
length^3 0.000473176473 pt pint
length^3 0.0002365882365 cup
dollar 1 $ dollar usd buck
dollar 1/100 cent \u00a2
euro 1 \u20ac euro eur
sterling 1 \u00a3 gbp
yen 1 \u00a5 yen jpy yuan rmb
rupee 1 \u20b9 rupee inr rs
won 1 \u20a9 won krw
angle 1 degree deg
radian 1 radian rad
celsius 1 celsius C
fahrenheit 1 fahrenheit F
kelvin 1 kelvin K
power 1 W watt
power 1000 kW kilowatt
energy 1 J joule
energy 1000 kJ kilojoule
force 1 N newton
voltage 1 V volt
current 1 A amp ampere
frequency 1 Hz hertz
frequency 1000 kHz
frequency 1000000 MHz
data 1 byte
data 1000 KB kilobyte
data 1000000 MB megabyte
data 1000000000 GB gigabyte
percent 1/100 % percent pct percents
permille 1/1000 \u2030
"""
_COMPOUND: Final = {
    "mph": (("mi", 1), ("h", -1)),
    "kph": (("km", 1), ("h", -1)),
    "kmh": (("km", 1), ("h", -1)),
    "fps": (("ft", 1), ("s", -1)),
}
_POWERS: Final = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_OPERATIONS: Final = frozenset(["squared", "cubed", "factorial", "doubled", "tripled", "halved"])
"""Words that on their own change the number before them."""
_FILLER: Final = frozenset({"of", "the", "per", "a", "an", "each", "in", "."})


@cache
def _units() -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for line in _TABLE.split("\n"):
        if line:
            dimension, factor, *names = line.split()
            name, _, power = dimension.partition("^")
            unit = Unit(((name, int(power or 1)),), Fraction(factor))
            units.update(dict.fromkeys(names, unit))
    return units


def lookup(word: str) -> Unit | None:
    """Return the unit of one word or symbol: exact spelling first, then lower case, singular."""
    units = _units()
    lower = word.lower()
    for name in (word, lower, lower.removesuffix("s"), lower.removesuffix("es")):
        if name in units and (len(name) > 1 or name == word or not name.isalpha()):
            return units[name]
    return None


def starts_unit(word: str) -> bool:
    """Whether a word may begin a unit: a known one, "square", or any noun of three letters."""
    return len(word) > 2 or word in _POWERS or lookup(word) is not None


def is_currency(text: str) -> bool:
    """Whether a token is a currency sign that may stand before a number."""
    return text in ("\\$", "$", "\u20ac", "\u00a3", "\u00a5", "\u20b9", "\u20a9", "\u00a2")


def _power(base: Unit, exponent: int) -> Unit:
    dimension = tuple((name, power * exponent) for name, power in base.dimension)
    return Unit(dimension, base.factor**exponent)


def _times(left: Unit, right: Unit) -> Unit:
    powers = dict(left.dimension)
    for name, power in right.dimension:
        powers[name] = powers.get(name, 0) + power
    kept = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(kept, left.factor * right.factor)


def _exponent(tokens: list[Token], at: int) -> tuple[int, int]:
    """Return the power written behind a unit and the index after it: `^2`, `^{2}`, `^{-1}`."""
    text = "".join(token.text for token in tokens[at : at + 5])
    match = re.match(r"\^(?:\{(-?[1-4])\}|(-?[1-4]))", text)
    if match is None:
        return 1, at
    length = len(match[0])
    return int(match[1] or match[2]), at + length


def parse_unit(tokens: list[Token]) -> Unit | None:
    """Return the unit that a run of tokens names.

    Returns:
        A unit of known dimension; `NOUN` for other words ("apples", "square units"), which
        carry no scale; None when the tokens are no unit at all.
    """
    if len(tokens) == 1 and tokens[0].text.strip(" .").lower() in _OPERATIONS:
        return None
    if tokens[0].text in ("%", "percent", "pct"):
        return PERCENT if all(token.kind in ("word", "text") for token in tokens[1:]) else None
    unit, sign, pending, known, words = Unit((), Fraction(1)), 1, 1, True, 0
    at = 0
    while at < len(tokens):
        token = tokens[at]
        text = token.text.rstrip(".")
        at += 1
        if text in ("/", "per"):
            sign = -1
        elif (token.kind == "op" and text in ("", "-", "(", ")", "{", "}", "'")) or text == "cdot":
            continue
        elif text in _POWERS:
            pending, words = _POWERS[text], words + 1
            if text in ("squared", "cubed") and unit.dimension:
                unit, pending = _power(unit, _POWERS[text]), 1
        elif text in _COMPOUND:
            for name, power in _COMPOUND[text]:
                unit = _times(unit, _power(_units()[name], power))
            words += 1
        elif token.kind in ("word", "text", "cmd", "op"):
            part = lookup(text.removeprefix("\\"))
            if part is None and (token.kind in ("cmd", "op") or text in _FILLER):
                if token.kind in ("cmd", "op"):
                    return None
                continue
            words += 1
            if part is None:
                known = False
                continue
            exponent, at = _exponent(tokens, at)
            unit = _times(unit, _power(part, sign * pending * exponent))
            sign, pending = 1, 1
        else:
            return None
    if not words:
        return None
    return unit if known and pending == 1 and unit.dimension else NOUN
