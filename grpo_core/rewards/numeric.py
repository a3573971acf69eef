"""Floating-point values of expression trees: a cheap way to see that two of them differ."""

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Final

from grpo_core.rewards.nodes import Node, Num, Op, Sym

_CONSTANTS: Final[dict[str, complex]] = {"pi": math.pi, "e": math.e, "i": 1j}
_POINTS: Final = (0.7390851332, 1.3247179572, 1.9021605831)
_FUNCTIONS: Final[dict[str, Callable[[complex], complex]]] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "cot": lambda z: 1 / cmath.tan(z),
    "sec": lambda z: 1 / cmath.cos(z),
    "csc": lambda z: 1 / cmath.sin(z),
    "arcsin": cmath.asin,
    "arccos": cmath.acos,
    "arctan": cmath.atan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "ln": cmath.log,
    "exp": cmath.exp,
    "lg": cmath.log10,
    "neg": lambda z: -z,
    "abs": abs,
}


def approximate(
    node: Node, symbols: Mapping[str, complex], *, log_base_ten: bool = True
) -> complex | None:
    """Return the value of a tree in double precision, None where it has none."""
    try:
        value = complex(_value(node, symbols, log_base_ten))
    except (ArithmeticError, ValueError, KeyError):
        return None
    return value if cmath.isfinite(value) else None


def _value(node: Node, symbols: Mapping[str, complex], ten: bool) -> complex:
    if isinstance(node, Num):
        return float(node.value)
    if isinstance(node, Sym):
        return _CONSTANTS[node.name] if node.name in _CONSTANTS else symbols[node.name]
    values = [_value(part, symbols, ten) for part in node.args]
    return _apply(node.name, values, ten)


def _apply(name: str, values: list[complex], ten: bool) -> complex:
    first = values[0]
    if name == "add":
        return sum(values)
    if name == "mul":
        return math.prod(values)
    if name == "div":
        return first / values[1]
    if name == "pow":
        power: complex = first ** values[1]
        return power
    if name == "root":
        return _root(first, values[1])
    if name == "log":
        base = values[1] if len(values) > 1 else (10 if ten else math.e)
        return cmath.log(first) / cmath.log(base)
    return _FUNCTIONS[name](first)


def _root(radicand: complex, degree: complex) -> complex:
    if radicand.imag == 0 and radicand.real < 0 and degree.real % 2 == 1:
        real: float = (-radicand.real) ** (1 / degree.real)
        return -real
    return complex(radicand) ** (1 / degree)


def symbols_of(node: Node) -> set[str]:
    """Return the names of the free symbols of a tree."""
    if isinstance(node, Sym):
        return set() if node.name in _CONSTANTS else {node.name}
    if isinstance(node, Op):
        return set().union(*(symbols_of(part) for part in node.args))
    return set()


def clearly_differ(left: Node, right: Node, *, log_base_ten: bool = True) -> bool:
    """Whether two trees have clearly different values at some point where both have one.

    Clearly means by more than a millionth: far beyond what double precision can blur.
    """
    names = sorted(symbols_of(left) | symbols_of(right))
    for shift in range(2):
        symbols = {
            name: complex(_POINTS[(index + shift) % 3] + 0.11 * index)
            for index, name in enumerate(names)
        }
        values = [approximate(n, symbols, log_base_ten=log_base_ten) for n in (left, right)]
        first, second = values
        if first is None or second is None:
            continue
        scale = max(abs(first), abs(second))
        if abs(first - second) > 1e-6 * scale and abs(first - second) > 1e-9:
            return True
    return False
