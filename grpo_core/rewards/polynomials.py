"""Polynomials over Q in symbols, square roots of square-free integers, i and atoms."""

import math
from fractions import Fraction
from typing import Final

from grpo_core.rewards.nodes import TooLargeError

Monomial = tuple[tuple[str, int], ...]
Poly = dict[Monomial, Fraction]

MAX_BITS: Final = 40_000
MAX_TERMS: Final = 300
ONE: Final[Monomial] = ()


def checked(value: Fraction) -> Fraction:
    """Return a number; raise TooLargeError when it has more bits than any answer."""
    if value.numerator.bit_length() + value.denominator.bit_length() > 2 * MAX_BITS:
        raise TooLargeError("a number with more digits than any answer has")
    return value


def add(left: Poly, right: Poly) -> Poly:
    """Return the sum of two polynomials."""
    total = dict(left)
    for key, value in right.items():
        updated = total.get(key, Fraction(0)) + value
        if updated:
            total[key] = updated
        else:
            total.pop(key, None)
    return total


def multiply(left: Poly, right: Poly) -> Poly:
    """Return the product; raise TooLargeError when it would have too many terms."""
    if len(left) * len(right) > MAX_TERMS * 8:
        raise TooLargeError("an expression with too many terms")
    product: Poly = {}
    for key, value in left.items():
        for other, factor in right.items():
            merged, scale = _times(key, other)
            updated = product.get(merged, Fraction(0)) + checked(value * factor * scale)
            if updated:
                product[merged] = updated
            else:
                product.pop(merged, None)
    return product


def _times(left: Monomial, right: Monomial) -> tuple[Monomial, Fraction]:
    if not left or not right:
        return left or right, Fraction(1)
    powers = dict(left)
    for name, power in right:
        powers[name] = powers.get(name, 0) + power
    return reduced(powers)


def reduced(powers: dict[str, int]) -> tuple[Monomial, Fraction]:
    """Return the monomial with i and square roots reduced, and the factor that frees."""
    scale = Fraction(1)
    radicand = 1
    for name in [name for name in powers if name == "i" or name.startswith("r:")]:
        power = powers.pop(name)
        if name == "i":
            quarter = power % 4
            scale *= -1 if quarter >= 2 else 1
            if quarter % 2:
                powers["i"] = 1
            continue
        number = int(name[2:])
        scale *= Fraction(number) ** (power // 2)
        if power % 2:
            common = math.gcd(radicand, number)
            scale *= common
            radicand = radicand * number // common**2
    if radicand != 1:
        powers[f"r:{radicand}"] = 1
    return tuple(sorted((name, power) for name, power in powers.items() if power)), scale
