"""Values of expression trees to fifty digits; runs only inside a killable worker."""

from collections.abc import Callable
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from grpo_core.rewards.nodes import Node, Num, Op, Sym
from grpo_core.rewards.numeric import symbols_of

_DIGITS: Final = 50
_AGREE: Final = mpmath.mpf(10) ** -35
_POINTS: Final = ((739, 541), (-857, 613), (227, 97), (-419, 1009), (31, 137), (1733, 811))
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "cot": mpmath.cot,
    "sec": mpmath.sec,
    "csc": mpmath.csc,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "ln": mpmath.log,
    "lg": mpmath.log10,
    "exp": mpmath.exp,
    "abs": abs,
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "fact": mpmath.factorial,
    "binom": mpmath.binomial,
    "Re": mpmath.re,
    "Im": mpmath.im,
    "arg": mpmath.arg,
    "neg": lambda value: -value,
    "div": lambda left, right: left / right,
    "pow": lambda base, exponent: base**exponent,
    "add": lambda *parts: mpmath.fsum(parts),
    "mul": lambda *parts: mpmath.fprod(parts),
}


def identical(left: Node, right: Node, *, log_base_ten: bool) -> bool | None:
    """Return whether two trees agree to 35 digits wherever both have a value.

    Six points of both signs, the same value never used for two symbols; None when no point has a
    value on both sides or a function is unknown here.
    """
    names = sorted(symbols_of(left) | symbols_of(right))
    agreed = False
    with mpmath.workdps(_DIGITS):
        for shift in range(len(_POINTS) if names else 1):
            point = {
                name: mpmath.mpf(_POINTS[(index + shift) % 6][0] + index // 6)
                / _POINTS[(index + shift) % 6][1]
                for index, name in enumerate(names)
            }
            values = [_valued(side, point, log_base_ten) for side in (left, right)]
            first, second = values
            if first is None or second is None:
                continue
            scale = max(abs(first), abs(second), mpmath.mpf(1))
            if abs(first - second) > _AGREE * scale:
                return False
            agreed = True
    return True if agreed else None


def _valued(node: Node, point: dict[str, Any], ten: bool) -> Any | None:
    try:
        value = _value(node, point, ten)
    except (ArithmeticError, ValueError, KeyError):
        return None
    return value if mpmath.isfinite(value) else None


def _value(node: Node, point: dict[str, Any], ten: bool) -> Any:
    if isinstance(node, Num):
        return mpmath.mpf(node.value.numerator) / node.value.denominator
    if isinstance(node, Sym):
        constants = {"pi": mpmath.pi, "e": mpmath.e, "i": mpmath.mpc(0, 1)}
        return +constants[node.name] if node.name in constants else point[node.name]
    return _applied(node, [_value(part, point, ten) for part in node.args], ten)


def _applied(node: Op, values: list[Any], ten: bool) -> Any:
    if node.name == "root":
        return _root(*values)
    if node.name == "log":
        base = values[1] if len(values) > 1 else (mpmath.mpf(10) if ten else +mpmath.e)
        return mpmath.log(values[0]) / mpmath.log(base)
    return _FUNCTIONS[node.name](*values)


def _root(radicand: Any, degree: Any) -> Any:
    odd = mpmath.im(degree) == 0 and mpmath.fmod(degree, 2) == 1
    if odd and mpmath.im(radicand) == 0 and radicand < 0:
        return -((-radicand) ** (1 / degree))
    return mpmath.mpmathify(radicand) ** (1 / degree)
