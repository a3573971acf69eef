"""Exact arithmetic of calculator lines: parse, evaluate and write `+ - * /` over fractions.

Nothing is ever handed to Python's own evaluator; anything outside this grammar is refused:

    sum     = product (("+" | "-") product)*
    product = atom (("*" | "/") atom)*
    atom    = number | "(" sum ")"
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

_TOKEN = re.compile(r"\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?|\.\d+|[-+*/()])")
_MAX_CHARACTERS = 120
"""Of an expression; bounds the depth of its parentheses, too."""


class ExpressionError(ValueError):
    """An expression outside the grammar, or one without an exact value."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number in an expression.

    Args:
        index: Its position among the literals of the expression.
        value: Its exact value.
        text: As it was written.
    """

    index: int
    value: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class Operation:
    """`left op right`."""

    op: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Group:
    """A node in parentheses, kept so that the expression can be written as it was."""

    inner: "Node"


Node = Literal | Operation | Group


def number_value(text: str) -> Fraction:
    """Return the exact value of a number as people write it: 1,200 or .5 or 12.50."""
    return Fraction(text.replace(",", ""))


def parse(expression: str) -> Node:
    """Return the tree of an expression.

    Raises:
        ExpressionError: The text is outside the grammar or longer than 120 characters.
    """
    if len(expression) > _MAX_CHARACTERS:
        raise ExpressionError(f"expression of {len(expression)} characters")
    parser = _Parser(_tokens(expression))
    node = parser.sum()
    if parser.peek():
        raise ExpressionError(f"unexpected {parser.peek()!r} in {expression!r}")
    return node


def literals(node: Node) -> Iterator[Literal]:
    """Yield the literals from left to right."""
    if isinstance(node, Literal):
        yield node
    elif isinstance(node, Group):
        yield from literals(node.inner)
    else:
        yield from literals(node.left)
        yield from literals(node.right)


def values(node: Node, new: Mapping[int, Fraction] | None = None) -> list[Fraction]:
    """Return the value of every literal and operation, the whole expression's last.

    Args:
        node: The tree.
        new: Literal index -> value to take instead of the written one.

    Raises:
        ExpressionError: A division by zero.
    """
    trace: list[Fraction] = []
    _evaluate(node, new or {}, trace)
    return trace


def write(node: Node, texts: Mapping[int, str]) -> str:
    """Return the expression with some literals written anew (index -> text), without spaces."""
    if isinstance(node, Literal):
        return texts.get(node.index, node.text)
    if isinstance(node, Group):
        return f"({write(node.inner, texts)})"
    return write(node.left, texts) + node.op + write(node.right, texts)


def complexity(nodes: Sequence[Node], traces: Sequence[Sequence[Fraction]]) -> float:
    """Return the digits that are handled: over all operations, those of both operands.

    Args:
        nodes: The expressions.
        traces: `values` of each.
    """
    return float(sum(_handled(node, trace) for node, trace in zip(nodes, traces, strict=True)))


def _evaluate(node: Node, new: Mapping[int, Fraction], trace: list[Fraction]) -> Fraction:
    if isinstance(node, Group):
        return _evaluate(node.inner, new, trace)
    if isinstance(node, Literal):
        value = new.get(node.index, node.value)
    else:
        left = _evaluate(node.left, new, trace)
        right = _evaluate(node.right, new, trace)
        value = _apply(node.op, left, right)
    trace.append(value)
    return value


def _apply(op: str, left: Fraction, right: Fraction) -> Fraction:
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    if op == "*":
        return left * right
    if right == 0:
        raise ExpressionError("division by zero")
    return left / right


def _handled(node: Node, trace: Sequence[Fraction]) -> int:
    """Digits of the operands of every operation; operands stand in the trace in postfix order."""
    total = 0
    stack: list[Fraction] = []
    for item, value in zip(_postfix(node), trace, strict=True):
        if isinstance(item, Operation):
            total += _digits(stack.pop()) + _digits(stack.pop())
        stack.append(value)
    return total


def _postfix(node: Node) -> Iterator[Literal | Operation]:
    if isinstance(node, Group):
        yield from _postfix(node.inner)
    elif isinstance(node, Literal):
        yield node
    else:
        yield from _postfix(node.left)
        yield from _postfix(node.right)
        yield node


def _digits(value: Fraction) -> int:
    return len(str(abs(value.numerator))) + (
        len(str(value.denominator)) if value.denominator > 1 else 0
    )


def _tokens(expression: str) -> list[str]:
    tokens, position = [], 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise ExpressionError(f"unexpected {text[position:][:5]!r} in {expression!r}")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._position = 0
        self._num_literals = 0

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def sum(self) -> Node:
        """Parse a sum; the operators of one level group to the left."""
        node = self._product()
        while self.peek() in ("+", "-"):
            node = Operation(self._take(), node, self._product())
        return node

    def _product(self) -> Node:
        node = self._atom()
        while self.peek() in ("*", "/"):
            node = Operation(self._take(), node, self._atom())
        return node

    def _atom(self) -> Node:
        token = self._take()
        if token == "(":
            inner = self.sum()
            if self._take() != ")":
                raise ExpressionError("a parenthesis is not closed")
            return Group(inner)
        if not token or token in "+-*/)":
            raise ExpressionError(f"expected a number, got {token or 'the end'!r}")
        self._num_literals += 1
        return Literal(self._num_literals - 1, number_value(token), token)

    def _take(self) -> str:
        token = self.peek()
        self._position += 1
        return token
