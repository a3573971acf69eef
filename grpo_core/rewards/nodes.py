"""Expression trees: numbers, symbols and operations, as plain data."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Num:
    """An exact number.

    Attributes:
        value: The number.
        digits: Significant digits when it was written with a decimal point, else 0.
    """

    value: Fraction
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Sym:
    """A symbol; `pi`, `e`, `i` and `oo` are the constants."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operation.

    Attributes:
        name: add, mul, div, pow, neg, root (radicand, degree), fact, abs, pm, mp, sub
            (subscript), mixed, or the name of a function.
        args: Its operands.
    """

    name: str
    args: "tuple[Node, ...]"


Node = Num | Sym | Op


class TooLargeError(ArithmeticError):
    """A value that would take more digits than any answer has."""
