"""Whether two single values are equal: units, rounding noise, exact algebra, then symbolic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from grpo_core.rewards.algebra import Quotient, UndefinedError, canonical, equal
from grpo_core.rewards.answers import Answer, Items, Scalar
from grpo_core.rewards.nodes import Node, Num, Op
from grpo_core.rewards.numeric import approximate, clearly_differ, symbols_of
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.signs import expanded, has_sign
from grpo_core.rewards.units import PERCENT, Unit

SymbolicEqual = Callable[[Node | str, Node | str], bool]


class NeedsSymbolic(Exception):  # noqa: N818 - a signal to the caller, not an error
    """Only a killable process can tell: ask again there.

    Args:
        full: Whether it takes computer algebra; high-precision arithmetic is enough otherwise.
    """

    def __init__(self, *, full: bool) -> None:
        super().__init__(full)
        self.full = full


@dataclass(frozen=True, slots=True)
class ScalarComparison:
    """Compares single values.

    Attributes:
        options: The grader's choices.
        symbolic: Decides pairs that exact arithmetic cannot; None raises `NeedsSymbolic`.
        force_symbolic: Also send what exact arithmetic could decide; for testing.
    """

    options: VerifierOptions
    symbolic: SymbolicEqual | None = None
    force_symbolic: bool = False

    def same(self, answer: Answer, gold: Answer) -> bool:
        """Return whether two answers are equal; single values only."""
        if isinstance(answer, Scalar) and isinstance(gold, Scalar):
            return self._scalars(answer, gold)
        return answer == gold

    def _ask(self, left: Node | str, right: Node | str) -> bool:
        if self.symbolic is None:
            raise NeedsSymbolic(full=isinstance(left, str) or isinstance(right, str))
        return self.symbolic(left, right)

    def _scalars(self, answer: Scalar, gold: Scalar) -> bool:
        if has_sign(answer.node) or has_sign(gold.node):
            return self._with_signs(answer, gold)
        if answer.base != gold.base and not (
            self.options.missing_base and answer.base is None and gold.base is not None
        ):
            return False
        scale = self._unit_scale(answer, gold)
        return any(self._nodes(answer.node, gold.node, factor) for factor in scale)

    def _with_signs(self, answer: Scalar, gold: Scalar) -> bool:
        left, right = expanded(answer), expanded(gold)
        return (
            isinstance(left, Items)
            and isinstance(right, Items)
            and self._unordered(left.items, right.items)
        )

    def _unit_scale(self, answer: Scalar, gold: Scalar) -> Sequence[Fraction]:
        """Return the factors the answer may be multiplied with to be in the gold's unit."""
        mine, theirs = answer.unit, gold.unit
        if PERCENT in (mine, theirs) and mine != theirs:
            return self._percent_scale(mine, theirs, answer, gold)
        if mine is None or theirs is None or not mine.dimension or not theirs.dimension:
            missing = (mine is None or not mine.dimension) and theirs is not None
            real = missing and theirs is not None and bool(theirs.dimension)
            return (Fraction(1),) if self.options.missing_unit or not real else ()
        if mine.dimension != theirs.dimension:
            return ()
        ratio = mine.factor / theirs.factor
        return (ratio,) if ratio == 1 or self.options.convert_units else ()

    def _percent_scale(
        self, mine: Unit | None, theirs: Unit | None, answer: Scalar, gold: Scalar
    ) -> Sequence[Fraction]:
        if (mine or PERCENT).dimension and (theirs or PERCENT).dimension and mine and theirs:
            return ()
        omitted = (Fraction(1),) if self.options.missing_percent else ()
        if mine != PERCENT:
            return (Fraction(100), *omitted)
        value = approximate(gold.node, {})
        large = value is not None and abs(value) > 1
        return (Fraction(1, 100), *omitted) if large else (Fraction(1, 100),)

    def _nodes(self, answer: Node, gold: Node, factor: Fraction) -> bool:
        if factor != 1:
            answer = Op("mul", (answer, Num(factor)))
        elif isinstance(answer, Num) and isinstance(gold, Num) and not self.force_symbolic:
            if answer.value == gold.value:
                return True
            return self._is_precise(answer, gold) and self._is_noise(answer.value, gold.value)
        try:
            left, right = canonical(answer), canonical(gold)
        except UndefinedError:
            return False
        verdict = equal(left, right)
        if verdict and not self.force_symbolic:
            return True
        if self._is_rounding(answer, left, gold, right):
            return True
        if verdict is False and not self.force_symbolic:
            return False
        if clearly_differ(answer, gold, log_base_ten=self.options.log_base_ten):
            return False
        return self._ask(answer, gold)

    def _is_rounding(self, answer: Node, left: Quotient, gold: Node, right: Quotient) -> bool:
        """Whether a decimal differs from the other value by rounding noise only."""
        if not self._is_precise(answer, gold):
            return False
        first, second = left.constant(), right.constant()
        if first is not None and second is not None:
            return self._is_noise(first, second)
        if (first is None) == (second is None) or symbols_of(answer) or symbols_of(gold):
            return False
        values = [approximate(node, {}) for node in (answer, gold)]
        a, b = values
        return (
            a is not None
            and b is not None
            and abs(a - b) <= self.options.relative_tolerance * abs(b)
        )

    def _is_precise(self, answer: Node, gold: Node) -> bool:
        """Whether a side is a decimal of enough digits to be taken for a rounded exact value."""
        digits = max(_digits(answer), _digits(gold))
        return digits > 0 and 10.0 ** -(digits + 2) <= self.options.relative_tolerance

    def _is_noise(self, value: Fraction, gold: Fraction) -> bool:
        if value.denominator == 1 and gold.denominator == 1:
            return value == gold
        if min(_significant(value), _significant(gold)) >= 15:
            return value == gold
        difference = abs(value - gold)
        if gold.denominator == 1 and difference >= Fraction(1, 1000):
            return False
        return difference <= Fraction(self.options.relative_tolerance) * abs(gold)

    def _unordered(self, answer: Sequence[Answer], gold: Sequence[Answer]) -> bool:
        if len(answer) > 200 or len(gold) > 200:
            return False
        covered = all(any(self.same(a, g) for a in answer) for g in gold)
        return covered and all(any(self.same(a, g) for g in gold) for a in answer)


def _significant(value: Fraction) -> int:
    """Return the significant digits of a terminating decimal, 0 when it does not terminate."""
    powers = []
    rest = value.denominator
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        powers.append(count)
    if rest != 1:
        return 0
    shift: int = 10 ** max(powers)
    scaled = abs(value.numerator) * shift // value.denominator
    if scaled.bit_length() > 4000:
        return scaled.bit_length() // 4
    return len(str(scaled).rstrip("0"))


def _digits(node: Node) -> int:
    if isinstance(node, Num):
        return node.digits
    return max(map(_digits, node.args), default=0) if isinstance(node, Op) else 0
