"""Exact algebra without a computer algebra system: quotients of polynomials over Q.

A polynomial maps monomials in symbols, square roots of square-free integers, i and "atoms"
(functions, symbolic powers) to rational coefficients. Two quotients are equal when their cross
products are. Without atoms the form is unique, so both answers, equal and different, are certain;
with atoms only "equal" is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from grpo_core.rewards.nodes import Node, Num, Op, Sym, TooLargeError
from grpo_core.rewards.polynomials import (
    MAX_BITS,
    MAX_TERMS,
    ONE,
    Poly,
    add,
    checked,
    multiply,
    reduced,
)

_MAX_POWER: Final = 64
_MAX_FACTORIAL: Final = 2000
_MAX_RADICAND: Final = 10**12


class UndefinedError(ArithmeticError):
    """Division by zero and its like."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """A quotient of polynomials; `unique` says whether its form decides inequality too."""

    top: Poly
    bottom: Poly
    unique: bool

    def constant(self) -> Fraction | None:
        """Return the value when the quotient is a rational number."""
        if any(key != ONE for key in (*self.top, *self.bottom)):
            return None
        return self.top.get(ONE, Fraction(0)) / self.bottom[ONE]


def constant(value: Fraction | int) -> Quotient:
    """Return a number as a quotient."""
    top = {ONE: Fraction(value)} if value else {}
    return Quotient(top, {ONE: Fraction(1)}, True)


def equal(left: Quotient, right: Quotient) -> bool | None:
    """Return whether two quotients are equal, None when this form cannot tell."""
    if left.bottom == right.bottom:
        same = left.top == right.top
    else:
        same = multiply(left.top, right.bottom) == multiply(right.top, left.bottom)
    if same:
        return True
    return False if left.unique and right.unique else None


def _quotient(top: Poly, bottom: Poly, unique: bool) -> Quotient:
    """Return a quotient; a denominator of one term is divided out."""
    if not bottom:
        raise UndefinedError("division by zero")
    if len(top) > MAX_TERMS or len(bottom) > MAX_TERMS:
        raise TooLargeError("an expression with too many terms")
    if len(bottom) == 1 and bottom != {ONE: Fraction(1)}:
        key, value = next(iter(bottom.items()))
        inverse, scale = reduced({name: -power for name, power in key})
        top = multiply(top, {inverse: scale / value})
        bottom = {ONE: Fraction(1)}
    return Quotient(top, bottom, unique)


def _plus(left: Quotient, right: Quotient) -> Quotient:
    unique = left.unique and right.unique
    if left.bottom == right.bottom:
        return _quotient(add(left.top, right.top), left.bottom, unique)
    top = add(multiply(left.top, right.bottom), multiply(right.top, left.bottom))
    return _quotient(top, multiply(left.bottom, right.bottom), unique)


def _product(left: Quotient, right: Quotient) -> Quotient:
    unique = left.unique and right.unique
    bottom = multiply(left.bottom, right.bottom)
    return _quotient(multiply(left.top, right.top), bottom, unique)


def _inverse(value: Quotient) -> Quotient:
    return _quotient(value.bottom, value.top, value.unique)


def canonical(node: Node) -> Quotient:
    """Return the canonical quotient of an expression tree.

    Raises:
        TooLargeError: When a number or the expansion would outgrow any answer.
        UndefinedError: On division by zero.
    """
    if isinstance(node, Num):
        return constant(checked(node.value))
    if isinstance(node, Sym):
        return _symbol(node.name)
    return _OPERATIONS.get(node.name, _atom)(node)


def _symbol(name: str) -> Quotient:
    return Quotient({((name, 1),): Fraction(1)}, {ONE: Fraction(1)}, True)


def _sum(node: Op) -> Quotient:
    total = constant(0)
    for part in node.args:
        total = _plus(total, canonical(part))
    return total


def _multiplied(node: Op) -> Quotient:
    total = constant(1)
    for part in node.args:
        total = _product(total, canonical(part))
    return total


def _divided(node: Op) -> Quotient:
    return _product(canonical(node.args[0]), _inverse(canonical(node.args[1])))


def _negated(node: Op) -> Quotient:
    return _product(constant(-1), canonical(node.args[0]))


def _raised(node: Op) -> Quotient:
    base, exponent = canonical(node.args[0]), canonical(node.args[1])
    power = exponent.constant()
    if power is None:
        if base.constant() == 1:
            return base
        return _atom(node)
    if power.denominator == 2 and abs(power) < _MAX_POWER:
        base, power = _square_root(base, node), Fraction(power.numerator)
    if power.denominator != 1:
        return _root_of(base, int(power.denominator), node, int(power.numerator))
    return _integer_power(base, int(power))


def _integer_power(base: Quotient, power: int) -> Quotient:
    if power < 0:
        base, power = _inverse(base), -power
    size = max(
        (v.numerator.bit_length() + v.denominator.bit_length() for v in base.top.values()),
        default=0,
    )
    value = base.constant()
    trivial = value is not None and abs(value) <= 1 and value.denominator == 1
    if trivial and value is not None:
        return constant(value ** (power if power < 2 else 2 + power % 2))
    if size * power > MAX_BITS or (len(base.top) + len(base.bottom) > 2 and power > _MAX_POWER):
        raise TooLargeError("a power with more digits than any answer has")
    if value is not None:
        return constant(value**power)
    result = constant(1)
    while power:
        if power & 1:
            result = _product(result, base)
        power >>= 1
        base = _product(base, base) if power else base
    return result


def _rooted(node: Op) -> Quotient:
    degree = canonical(node.args[1]).constant()
    base = canonical(node.args[0])
    if degree == 2:
        return _square_root(base, node)
    if degree is None or degree.denominator != 1 or degree < 1:
        return _atom(node)
    return _root_of(base, int(degree), node, 1)


def _square_root(base: Quotient, node: Op) -> Quotient:
    value = base.constant()
    if value is None:
        return _atom(Op("root", (node.args[0], Num(Fraction(2)))))
    radicand = abs(value.numerator) * value.denominator
    if radicand > _MAX_RADICAND:
        exact = math.isqrt(radicand)
        if exact * exact != radicand:
            return _atom(Op("root", (node.args[0], Num(Fraction(2)))))
        outside, inside = exact, 1
    else:
        outside, inside = _square_free(radicand)
    key: dict[str, int] = {f"r:{inside}": 1} if inside > 1 else {}
    if value < 0:
        key["i"] = 1
    top = {tuple(sorted(key.items())): Fraction(outside, value.denominator)} if value else {}
    return Quotient(top, {ONE: Fraction(1)}, True)


def _square_free(number: int) -> tuple[int, int]:
    """Return (s, r) with number = s² r and r square-free up to a remainder's exact root."""
    outside, inside, factor = 1, 1, 2
    while factor * factor * factor <= number:
        while number % (factor * factor) == 0:
            number //= factor * factor
            outside *= factor
        if number % factor == 0:
            number //= factor
            inside *= factor
        factor += 1
    exact = math.isqrt(number)
    if exact * exact == number:
        return outside * exact, inside
    return outside, inside * number


def _root_of(base: Quotient, degree: int, node: Op, power: int) -> Quotient:
    value = base.constant()
    if value is None or degree > 64 or abs(power) > _MAX_POWER or (value < 0 and degree % 2 == 0):
        return _atom(node)
    roots = [_integer_root(abs(part), degree) for part in (value.numerator, value.denominator)]
    top, bottom = roots
    if top is None or bottom is None:
        return _atom(node)
    return _integer_power(constant(Fraction(-top if value < 0 else top, bottom)), power)


def _integer_root(number: int, degree: int) -> int | None:
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**degree < number:
            low = middle + 1
        else:
            high = middle
    return low if low**degree == number else None


def _integer_argument(node: Op, limit: int) -> int | None:
    value = canonical(node.args[0]).constant()
    if value is None or value.denominator != 1:
        return None
    if value > limit:
        raise TooLargeError(f"{node.name} of a number beyond {limit}")
    return int(value) if value >= 0 else None


def _factorial(node: Op) -> Quotient:
    number = _integer_argument(node, _MAX_FACTORIAL)
    return _atom(node) if number is None else constant(math.factorial(number))


def _binomial(node: Op) -> Quotient:
    number = _integer_argument(node, 10_000)
    chosen = canonical(node.args[1]).constant()
    if number is None or chosen is None or chosen.denominator != 1:
        return _atom(node)
    return constant(math.comb(number, int(chosen)) if 0 <= chosen <= number else 0)


def _rounded(function: Callable[[Fraction], int | Fraction]) -> Callable[[Op], Quotient]:
    def apply(node: Op) -> Quotient:
        value = canonical(node.args[0]).constant()
        return _atom(node) if value is None else constant(function(value))

    return apply


def _gathered(function: Callable[..., int | Fraction]) -> Callable[[Op], Quotient]:
    def apply(node: Op) -> Quotient:
        values = [canonical(part).constant() for part in node.args]
        if any(value is None or value.denominator != 1 for value in values):
            return _atom(node)
        return constant(function(*(int(value) for value in values if value is not None)))

    return apply


def _atom(node: Op) -> Quotient:
    parts = [canonical(part) if isinstance(part, Num | Sym | Op) else part for part in node.args]
    name = f"{node.name}({';'.join(map(_spelled, parts))})"
    if len(name) > 20_000:
        raise TooLargeError("an expression too long to compare")
    return Quotient({((name, 1),): Fraction(1)}, {ONE: Fraction(1)}, node.name == "sub")


def _spelled(part: Quotient) -> str:
    return f"{sorted(part.top.items())}/{sorted(part.bottom.items())}"


_OPERATIONS: Final[dict[str, Callable[[Op], Quotient]]] = {
    "add": _sum,
    "mul": _multiplied,
    "div": _divided,
    "neg": _negated,
    "pow": _raised,
    "root": _rooted,
    "fact": _factorial,
    "binom": _binomial,
    "abs": _rounded(abs),
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "gcd": _gathered(math.gcd),
    "lcm": _gathered(math.lcm),
    "min": _gathered(min),
    "max": _gathered(max),
}
