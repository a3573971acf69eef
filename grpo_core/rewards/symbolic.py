"""Computer algebra: runs only inside a killable worker, never in the calling process.

Trees are built into sympy objects directly; text that the grader's own reader does not know goes
through math-verify's LaTeX parser (never through sympify, which evaluates Python).
"""

import re
from typing import Any, Final

import sympy  # type: ignore[import-untyped]
from math_verify import LatexExtractionConfig, parse, verify

from grpo_core.rewards.nodes import Node, Num, Op, Sym
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.precise import identical
from grpo_core.rewards.tokens import UnreadableError

_CONSTANTS: Final[dict[str, Any]] = {
    "pi": sympy.pi,
    "e": sympy.E,
    "i": sympy.I,
    "oo": sympy.oo,
}
_FUNCTIONS: Final[dict[str, Any]] = {
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "cot": sympy.cot,
    "sec": sympy.sec,
    "csc": sympy.csc,
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "tanh": sympy.tanh,
    "ln": sympy.log,
    "lg": lambda z: sympy.log(z) / sympy.log(10),
    "exp": sympy.exp,
    "abs": sympy.Abs,
    "floor": sympy.floor,
    "ceil": sympy.ceiling,
    "fact": sympy.factorial,
    "binom": sympy.binomial,
    "min": sympy.Min,
    "max": sympy.Max,
    "Re": sympy.re,
    "Im": sympy.im,
    "arg": sympy.arg,
}
_DIGITS: Final = 40
_POINTS: Final = tuple(
    sympy.Rational(n, d) for n, d in ((739, 541), (-857, 613), (227, 97), (-419, 1009), (31, 137))
)
_SAFE: Final = re.compile(r"[\x20-\x7e\n]{1,600}\Z")
_CONFIG: Final = (LatexExtractionConfig(boxed_match_priority=0),)


class SymbolicComparison:
    """Decides equality with computer algebra.

    Args:
        options: The grader's choices.
    """

    def __init__(self, options: VerifierOptions) -> None:
        self._options = options

    def __call__(self, answer: Node | str, gold: Node | str) -> bool:
        """Return whether two trees or LaTeX texts are equal.

        Raises:
            UnreadableError: When a text cannot be parsed.
        """
        if not isinstance(answer, str) and not isinstance(gold, str):
            decided = identical(answer, gold, log_base_ten=self._options.log_base_ten)
            if decided is not None:
                return decided
        left, right = self._built(answer), self._built(gold)
        if isinstance(answer, str) or isinstance(gold, str):
            return bool(
                verify(
                    [right], [left], float_rounding=14, numeric_precision=30, timeout_seconds=None
                )
            ) and not self._differ(left, right)
        return self._identical(left, right)

    def _built(self, side: Node | str) -> Any:
        if not isinstance(side, str):
            return self._tree(side)
        if not _SAFE.match(side) or "__" in side:
            raise UnreadableError("not LaTeX")
        parsed = parse(f"\\boxed{{{side}}}", list(_CONFIG), parsing_timeout=None)
        expressions = [part for part in parsed if not isinstance(part, str)]
        if not expressions:
            raise UnreadableError("math-verify reads no expression")
        return expressions[0]

    def _tree(self, node: Node) -> Any:
        if isinstance(node, Num):
            return sympy.Rational(node.value.numerator, node.value.denominator)
        if isinstance(node, Sym):
            return _CONSTANTS.get(node.name) or sympy.Symbol(node.name)
        return self._operation(node)

    def _operation(self, node: Op) -> Any:
        parts = [self._tree(part) for part in node.args]
        if node.name == "add":
            return sympy.Add(*parts)
        if node.name == "mul":
            return sympy.Mul(*parts)
        if node.name == "div":
            return parts[0] / parts[1]
        if node.name == "neg":
            return -parts[0]
        if node.name == "pow":
            return parts[0] ** parts[1]
        if node.name == "root":
            return sympy.real_root(parts[0], parts[1]) if parts[1].is_odd else sympy.root(*parts)
        if node.name == "log":
            default = 10 if self._options.log_base_ten else sympy.E
            return sympy.log(parts[0]) / sympy.log(parts[1] if len(parts) > 1 else default)
        function = _FUNCTIONS.get(node.name)
        if function is not None:
            return function(*parts)
        return sympy.Function(node.name)(*parts)

    def _identical(self, left: Any, right: Any) -> bool:
        """Whether two expressions agree to 25 digits wherever both have a value."""
        if left == right:
            return True
        agreed = 0
        for values in self._values(left, right):
            if not _close(*values):
                return False
            agreed += 1
        if agreed:
            return True
        return bool(sympy.simplify(left - right) == 0)

    def _differ(self, left: Any, right: Any) -> bool:
        if not isinstance(left, sympy.Expr) or not isinstance(right, sympy.Expr):
            return False
        return any(not _close(*values) for values in self._values(left, right))

    def _values(self, left: Any, right: Any) -> list[tuple[Any, Any]]:
        symbols = sorted(left.free_symbols | right.free_symbols, key=str)
        found = []
        for shift in range(len(_POINTS) if symbols else 1):
            point = {s: _POINTS[(i + shift) % len(_POINTS)] for i, s in enumerate(symbols)}
            values = [sympy.N(side.subs(point), _DIGITS, maxn=200) for side in (left, right)]
            if all(value.is_number and value.is_finite for value in values):
                found.append((values[0], values[1]))
        return found


def warm_up() -> None:
    """Build the LaTeX parser's tables once, before workers are forked from this process."""
    compare = SymbolicComparison(VerifierOptions())
    compare(r"\int_0^1 x^2 dx + \sum_{k=1}^{3} \frac{k}{\sqrt{2}}", r"\lim_{x \to 0} \sin(x)")


def _close(left: Any, right: Any) -> bool:
    """Whether two numbers of 40 digits agree to 25."""
    difference = sympy.Abs(sympy.N(left - right, _DIGITS, maxn=200))
    scale = sympy.Max(1, sympy.Abs(left), sympy.Abs(right)) if left.is_finite else 1
    return bool(difference <= scale * sympy.Float("1e-25"))
