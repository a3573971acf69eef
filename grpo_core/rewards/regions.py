"""Intervals, unions and inequalities in one unknown, as unions of pieces."""

from typing import Final

from grpo_core.rewards.answers import Answer, Interval, Items, Relation, Scalar, Union
from grpo_core.rewards.nodes import Node, Op, Sym

FLIPPED: Final = {
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
    "=": "=",
    "!=": "!=",
    "~": "~",
    "in": "in",
}


_MINUS_INFINITY: Final = Scalar(Op("neg", (Sym("oo"),)))


def is_simple_name(node: Node) -> bool:
    """Whether a tree is a name: x, x_1, f(2), AB."""
    if isinstance(node, Sym):
        return True
    if isinstance(node, Op) and node.name == "sub":
        return True
    return (
        isinstance(node, Op)
        and node.name == "mul"
        and len(node.args) <= 3
        and isinstance(node.args[0], Sym)
    )


def region(answer: Answer) -> Union | None:
    """Return an interval, a union or an inequality in one unknown as a union of pieces."""
    if isinstance(answer, Union):
        pieces = [region(part) for part in answer.parts]
        return Union(tuple(p for piece in pieces if piece is not None for p in piece.parts))
    if isinstance(answer, Interval):
        return Union((answer,))
    if isinstance(answer, Items):
        pair = answer.items
        if answer.kind == "tuple" and len(pair) == 2:
            low, high = pair
            if isinstance(low, Scalar) and isinstance(high, Scalar):
                return Union((Interval(low, high, False, False),))
        return _alternativesregion(answer)
    return _inequality(answer) if isinstance(answer, Relation) else None


def _alternativesregion(answer: Items) -> Union | None:
    if answer.kind == "set":
        return Union((answer,))
    if answer.kind == "list" and len(answer.items) == 2:
        return _both(answer.items)
    pieces = [region(item) for item in answer.items] if answer.kind == "or" else []
    if not pieces or any(piece is None for piece in pieces):
        return None
    return Union(tuple(part for piece in pieces if piece is not None for part in piece.parts))


def _both(items: tuple[Answer, ...]) -> Union | None:
    """Return `x > 1 and x < 2` as one interval."""
    halves = [_inequality(item) for item in items if isinstance(item, Relation)]
    parts = [part for half in halves if half is not None for part in half.parts]
    lower = [p for p in parts if isinstance(p, Interval) and p.high == Scalar(Sym("oo"))]
    upper = [p for p in parts if isinstance(p, Interval) and p.low == _MINUS_INFINITY]
    if len(items) != 2 or len(lower) != 1 or len(upper) != 1:
        return None
    low, high = lower[0], upper[0]
    return Union((Interval(low.low, high.high, low.closed_low, high.closed_high),))


def _inequality(relation: Relation) -> Union | None:
    sides, operators = relation.sides, relation.operators
    if operators == ("in",):
        return region(sides[1])
    if operators[0] in (">", ">="):
        sides, operators = sides[::-1], tuple(FLIPPED[o] for o in operators[::-1])
    if not set(operators) <= {"<", "<="} or not all(isinstance(side, Scalar) for side in sides):
        return None
    scalars = [side for side in sides if isinstance(side, Scalar)]
    infinity = Scalar(Sym("oo"))
    if len(scalars) == 3 and is_simple_name(scalars[1].node):
        low, high, ends = scalars[0], scalars[2], (operators[0] == "<=", operators[1] == "<=")
    elif len(scalars) == 2 and is_simple_name(scalars[0].node):
        low, high = Scalar(Op("neg", (Sym("oo"),))), scalars[1]
        ends = (False, operators[0] == "<=")
    elif len(scalars) == 2 and is_simple_name(scalars[1].node):
        low, high, ends = scalars[0], infinity, (operators[0] == "<=", False)
    else:
        return None
    return Union((Interval(low, high, *ends),))
