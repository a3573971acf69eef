"""What an answer can be, once it is read."""

from dataclasses import dataclass
from fractions import Fraction

from grpo_core.rewards.nodes import Node
from grpo_core.rewards.units import Unit


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value: a number or an expression, with its unit and its base when given."""

    node: Node
    unit: Unit | None = None
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """Several values.

    Attributes:
        kind: `tuple` (ordered), `set`, `list` (bare, separated by commas) or `or`.
        items: The values in the order written.
    """

    kind: str
    items: "tuple[Answer, ...]"


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of reals; `(1,3)` is read as a tuple, as its brackets say no more."""

    low: Scalar
    high: Scalar
    closed_low: bool
    closed_high: bool


@dataclass(frozen=True, slots=True)
class Union:
    """A union of intervals and sets."""

    parts: "tuple[Answer, ...]"


@dataclass(frozen=True, slots=True)
class Relation:
    """An equation or an inequality: n sides, n - 1 operators (`=`, `<`, `<=`, `!=`, `~`, `in`)."""

    sides: "tuple[Answer, ...]"
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A letter of a multiple-choice question, with what was written behind it."""

    letter: str


@dataclass(frozen=True, slots=True)
class Clock:
    """Two or three numbers with colons: a time of day or a ratio.

    Attributes:
        parts: The numbers.
        meridiem: `am`, `pm` or empty.
        is_time: Whether it is written as a time (two-digit minutes).
    """

    parts: tuple[Fraction, ...]
    meridiem: str
    is_time: bool


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of values."""

    rows: "tuple[tuple[Answer, ...], ...]"


@dataclass(frozen=True, slots=True)
class Text:
    """Words, normalised: lower case, no articles, no punctuation."""

    words: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """Mathematics that only a computer algebra system may read."""

    latex: str


Answer = Scalar | Items | Interval | Union | Relation | Choice | Clock | Matrix | Text | Opaque
