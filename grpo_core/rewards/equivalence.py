"""Whether an answer equals a gold: exact where exact arithmetic decides, symbolic where not."""

from dataclasses import dataclass
from fractions import Fraction

from grpo_core.rewards.algebra import Quotient, canonical
from grpo_core.rewards.answers import (
    Answer,
    Choice,
    Clock,
    Interval,
    Items,
    Matrix,
    Opaque,
    Relation,
    Scalar,
    Text,
    Union,
)
from grpo_core.rewards.clocks import same_clock
from grpo_core.rewards.nodes import Node, Num, Op, Sym
from grpo_core.rewards.numeric import approximate, symbols_of
from grpo_core.rewards.regions import FLIPPED, is_simple_name, region
from grpo_core.rewards.scalars import ScalarComparison
from grpo_core.rewards.signs import expanded


@dataclass(frozen=True, slots=True)
class Comparison(ScalarComparison):
    """Compares answers of every kind; the attributes are those of `ScalarComparison`."""

    def same(self, answer: Answer, gold: Answer) -> bool:
        """Return whether the answer equals the gold.

        Raises:
            NeedsSymbolic: When only computer algebra can tell and none was given.
            TooLargeError: When a number in the answer is beyond all answers.
        """
        if answer == gold:
            return True
        if isinstance(answer, Scalar) and isinstance(gold, Scalar):
            return self._scalars(answer, gold)
        answer, gold = _as_region(answer), _as_region(gold)
        answer, gold = self._unwrapped(self._collapsed(answer), gold)
        answer, gold = expanded(answer), expanded(gold)
        if isinstance(answer, Scalar) and isinstance(gold, Scalar):
            return self._scalars(answer, gold)
        if isinstance(answer, Items) and isinstance(gold, Items):
            return self._items(answer, gold)
        if isinstance(answer, Relation) and isinstance(gold, Relation):
            return self._relations(answer, gold)
        return self._structures(answer, gold)

    def _collapsed(self, answer: Answer) -> Answer:
        """Return the one value of alternatives that are all equal: `0.5 or 1/2`."""
        if not isinstance(answer, Items) or answer.kind != "or" or not answer.items:
            return answer
        first, *others = answer.items
        return first if all(self.same(first, other) for other in others) else answer

    def _structures(self, answer: Answer, gold: Answer) -> bool:
        if isinstance(answer, Text) or isinstance(gold, Text):
            return _words(answer) == _words(gold)
        if isinstance(answer, Choice | Clock) or isinstance(gold, Choice | Clock):
            return self._clocks(answer, gold)
        if isinstance(answer, Opaque) or isinstance(gold, Opaque):
            return self._opaque(answer, gold)
        if isinstance(answer, Matrix) or isinstance(gold, Matrix):
            return self._matrices(answer, gold)
        return self._regions(answer, gold)

    def _opaque(self, answer: Answer, gold: Answer) -> bool:
        left, right = _symbolic_form(answer), _symbolic_form(gold)
        if left is None or right is None:
            return False
        if isinstance(left, str) and isinstance(right, str) and _squeezed(left) == _squeezed(right):
            return True
        return self._ask(left, right)

    def _unwrapped(self, answer: Answer, gold: Answer) -> tuple[Answer, Answer]:
        """Drop a left side that only names the value: `x = 5` against 5, both `x = ...` too."""
        if isinstance(answer, Relation) and isinstance(gold, Relation):
            left, right = _named(answer), _named(gold)
            if left and right and left[0] == right[0]:
                return left[1], right[1]
            return answer, gold
        if isinstance(answer, Relation) and not isinstance(gold, Interval | Union):
            return self._right_side(answer, gold), gold
        if isinstance(gold, Relation) and not isinstance(answer, Interval | Union | Relation):
            named = _named(gold)
            return (answer, named[1]) if named else (answer, gold)
        return _assigned(answer, gold), _assigned(gold, answer)

    def _right_side(self, answer: Relation, gold: Answer) -> Answer:
        """The value a chain of equations ends in; a chain that contradicts itself has none."""
        if set(answer.operators) == {"in"}:
            return answer.sides[-1]
        if not set(answer.operators) <= {"=", "~"}:
            return answer
        values = [side for side in answer.sides if not _is_name(side)]
        last = values[-1] if values else answer.sides[-1]
        for earlier in values[:-1]:
            if not self._agree(earlier, last):
                return Items("or", (earlier, last))
        exact = [s for s, o in zip(answer.sides, answer.operators, strict=False) if o == "~"]
        if exact and not _is_name(exact[0]) and not self.same(last, gold):
            return exact[0]
        return last

    def _agree(self, left: Answer, right: Answer) -> bool:
        """Whether two sides of a chain are one value, or one rounded from the other."""
        if not isinstance(left, Scalar) or not isinstance(right, Scalar):
            return True
        if symbols_of(left.node) or symbols_of(right.node):
            return True
        values = [approximate(side.node, {}) for side in (left, right)]
        first, second = values
        if first is None or second is None:
            return True
        return abs(first - second) <= 0.02 * max(abs(first), abs(second), 0.01)

    def _items(self, answer: Items, gold: Items) -> bool:
        if gold.kind == "tuple" or answer.kind == "tuple":
            ordered = {"tuple"} | ({"list"} if self.options.list_matches_tuple else set())
            if not {answer.kind, gold.kind} <= ordered:
                return False
            by_name = [_by_name(side) for side in (answer, gold)]
            mine, theirs = by_name
            if mine is not None and theirs is not None:
                return mine.keys() == theirs.keys() and all(
                    self.same(mine[name], theirs[name]) for name in theirs
                )
            return len(answer.items) == len(gold.items) and all(
                self.same(a, g) for a, g in zip(answer.items, gold.items, strict=True)
            )
        mixed = {answer.kind, gold.kind} == {"set", "list"}
        if mixed and not self.options.list_matches_set:
            return False
        return self._unordered(answer.items, gold.items)

    def _relations(self, answer: Relation, gold: Relation) -> bool:
        if "=" in (*answer.operators, *gold.operators):
            return self._equations(answer, gold)
        left, right = region(answer), region(gold)
        if left is not None and right is not None:
            return self.same(left, right)
        for sides, operators in (
            (answer.sides, answer.operators),
            (answer.sides[::-1], tuple(FLIPPED[o] for o in answer.operators[::-1])),
        ):
            if operators == gold.operators and len(sides) == len(gold.sides):
                return all(self.same(a, g) for a, g in zip(sides, gold.sides, strict=True))
        return False

    def _equations(self, answer: Relation, gold: Relation) -> bool:
        if answer.operators != ("=",) or gold.operators != ("=",):
            return False
        sides = [*answer.sides, *gold.sides]
        if not all(isinstance(side, Scalar) for side in sides):
            return all(self.same(a, g) for a, g in zip(answer.sides, gold.sides, strict=True))
        nodes = [side.node for side in sides if isinstance(side, Scalar)]
        left = canonical(Op("add", (nodes[0], Op("neg", (nodes[1],)))))
        right = canonical(Op("add", (nodes[2], Op("neg", (nodes[3],)))))
        return _proportional(left, right)

    def _clocks(self, answer: Answer, gold: Answer) -> bool:
        if isinstance(answer, Clock) and isinstance(gold, Clock):
            return same_clock(answer, gold)
        clock, other = (answer, gold) if isinstance(answer, Clock) else (gold, answer)
        if not isinstance(clock, Clock) or not isinstance(other, Scalar):
            return False
        if not self.options.ratio_as_fraction or len(clock.parts) != 2 or not clock.parts[1]:
            return False
        if clock.is_time or clock.meridiem:
            return False
        return self._nodes(Num(clock.parts[0] / clock.parts[1]), other.node, Fraction(1))

    def _matrices(self, answer: Answer, gold: Answer) -> bool:
        rows = [_rows(side) for side in (answer, gold)]
        left, right = rows
        if left is None or right is None or [*map(len, left)] != [*map(len, right)]:
            return False
        return all(
            self.same(a, g)
            for mine, theirs in zip(left, right, strict=True)
            for a, g in zip(mine, theirs, strict=True)
        )

    def _regions(self, answer: Answer, gold: Answer) -> bool:
        left, right = region(answer), region(gold)
        if left is None or right is None or len(left.parts) != len(right.parts):
            return False
        return all(any(self._pieces(a, g) for a in left.parts) for g in right.parts)

    def _pieces(self, answer: Answer, gold: Answer) -> bool:
        if not isinstance(answer, Interval) or not isinstance(gold, Interval):
            return type(answer) is type(gold) and self.same(answer, gold)
        ends = (answer.closed_low, answer.closed_high) == (gold.closed_low, gold.closed_high)
        return (
            ends and self._scalars(answer.low, gold.low) and self._scalars(answer.high, gold.high)
        )


def _words(answer: Answer) -> str | None:
    if isinstance(answer, Text):
        return answer.words
    if isinstance(answer, Choice):
        return answer.letter.lower()
    if isinstance(answer, Scalar):
        return _product_word(answer.node)
    return None


def _product_word(node: Node) -> str | None:
    if isinstance(node, Sym):
        return node.name.lower()
    if isinstance(node, Op) and node.name == "mul":
        letters = [part.name for part in node.args if isinstance(part, Sym)]
        return "".join(letters).lower() if len(letters) == len(node.args) else None
    return None


def _symbolic_form(answer: Answer) -> Node | str | None:
    if isinstance(answer, Opaque):
        return answer.latex
    return answer.node if isinstance(answer, Scalar) else None


def _squeezed(latex: str) -> str:
    return "".join(latex.split())


def _is_name(side: Answer) -> bool:
    r"""Whether a side only names a value: x, f(2), AB, \\angle A."""
    if isinstance(side, Text | Opaque):
        return True
    return isinstance(side, Scalar) and bool(symbols_of(side.node))


def _named(relation: Relation) -> tuple[Node | str, Answer] | None:
    """Return (name, value) of `x = value`; None when it is a general equation."""
    if len(relation.sides) != 2 or relation.operators not in (("=",), ("in",)):
        return None
    left, right = relation.sides
    if isinstance(left, Text | Opaque):
        return _words(left) or str(left), right
    if isinstance(left, Scalar) and is_simple_name(left.node):
        return left.node, right
    return None


def _as_region(side: Answer) -> Answer:
    """Return a list of inequalities as the region they describe, anything else unchanged."""
    if not isinstance(side, Items) or side.kind == "tuple" or not side.items:
        return side
    bounds = [item for item in side.items if isinstance(item, Relation)]
    if len(bounds) < len(side.items) or any("=" in bound.operators for bound in bounds):
        return side
    return region(side) or side


def _by_name(side: Items) -> dict[Node | str, Answer] | None:
    """Return `x=1, y=2` as a mapping; None when not every item is an assignment."""
    pairs = [_named(item) for item in side.items if isinstance(item, Relation)]
    named = dict(pair for pair in pairs if pair is not None)
    return named if named and len(named) == len(side.items) else None


def _assigned(side: Answer, other: Answer) -> Answer:
    """Return `x=1, y=2` as (1, 2) when the other side is not made of assignments."""
    if not isinstance(side, Items) or not side.items:
        return side
    if not all(isinstance(item, Relation) for item in side.items):
        return side
    if isinstance(other, Items) and all(isinstance(item, Relation) for item in other.items):
        return side
    values = [_named(item) for item in side.items if isinstance(item, Relation)]
    kept = tuple(value[1] for value in values if value is not None)
    return Items(side.kind, kept) if len(kept) == len(side.items) else side


def _rows(answer: Answer) -> tuple[tuple[Answer, ...], ...] | None:
    if isinstance(answer, Matrix):
        return answer.rows
    if isinstance(answer, Items) and answer.kind == "tuple":
        return tuple((item,) for item in answer.items)
    return None


def _proportional(left: Quotient, right: Quotient) -> bool:
    """Whether two equations `left = 0` and `right = 0` differ by a constant factor only."""
    if left.bottom != right.bottom or set(left.top) != set(right.top) or not left.top:
        return left.top == right.top and left.bottom == right.bottom
    ratios = {left.top[key] / right.top[key] for key in left.top}
    return len(ratios) == 1
