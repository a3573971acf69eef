r"""Tokens to expression trees, for the arithmetic and algebra that answers are written in.

Grammar, by precedence: `+ - \pm \mp`; `* / \cdot \times \div` and juxtaposition; unary sign;
powers, factorials and subscripts; atoms. Two numbers side by side are no product: `4 2` is
refused, `1 1/2` and `1\frac{1}{2}` are mixed numbers.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from grpo_core.rewards.literals import END, LiteralParser
from grpo_core.rewards.nodes import Node, Num, Op, Sym
from grpo_core.rewards.tokens import Token, UnreadableError

MAX_DEPTH: Final = 60
_FUNCTION_NAMES: Final = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp abs floor ceil "
    "min max gcd lcm det arg Re Im"
)
FUNCTIONS: Final = frozenset(_FUNCTION_NAMES.split())
_WORD_FUNCTIONS: Final = FUNCTIONS | {"sqrt", "cbrt", "asin", "acos", "atan"}
_ALIASES: Final = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "varphi": "phi"}
_GREEK_NAMES: Final = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi rho "
    "sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi "
    "Omega ell hbar"
)
_GREEK: Final = frozenset(_GREEK_NAMES.split())
_CONSTANT_WORDS: Final = {"pi": "pi", "infinity": "oo", "inf": "oo", "infty": "oo"}
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}


class ExpressionParser(LiteralParser):
    """A recursive-descent parser over one run of tokens.

    Args:
        tokens: The tokens; all of them must belong to one expression.
    """

    def parse(self) -> Node:
        """Return the tree.

        Raises:
            UnreadableError: When the tokens are not one well-formed expression.
        """
        node = self._sum()
        if self._peek() is not END:
            raise UnreadableError(f"unexpected {self._peek().text!r}")
        return node

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError("nested too deep")
        sign = self._accept("pm", "mp")
        node = self._product()
        if sign:
            node = Op(sign, (Num(Fraction(0)), node))
        terms = [node]
        while operator := self._accept("+", "-", "pm", "mp"):
            right = self._product()
            if operator in ("pm", "mp"):
                terms = [Op(operator, (_joined("add", terms), right))]
            else:
                terms.append(right if operator == "+" else Op("neg", (right,)))
        self._depth -= 1
        return _joined("add", terms)

    def _product(self) -> Node:
        node = self._signed()
        factors = [node]
        while True:
            if self._accept("*", "cdot", "times", "ast") or self._is_letter_x():
                factors.append(self._signed())
            elif self._accept("/", "div"):
                factors = [Op("div", (_joined("mul", factors), self._signed()))]
            elif self._starts_factor():
                self._refuse_adjacent_numbers(factors[-1])
                factors.append(self._power())
            else:
                return _joined("mul", factors)

    def _is_letter_x(self) -> bool:
        previous, token, following = self._peek(-1), self._peek(), self._peek(1)
        if token[:2] == ("word", "x") and previous.kind == following.kind == "num":
            self._at += 1
            return True
        return False

    def _starts_factor(self) -> bool:
        token = self._peek()
        if token.kind == "op":
            return token.text in "([{" and bool(token.text)
        if token.kind == "cmd":
            return token.text not in _OPERATOR_COMMANDS
        return token.kind in ("num", "word")

    def _refuse_adjacent_numbers(self, left: Node) -> None:
        if isinstance(left, Num) and self._peek().kind == "num":
            raise UnreadableError("two numbers side by side")

    def _signed(self) -> Node:
        negative = False
        count = 0
        while sign := self._accept("-", "+"):
            negative ^= sign == "-"
            count += 1
            if count > 4:
                raise UnreadableError("too many signs")
        node = self._power()
        return Op("neg", (node,)) if negative else node

    def _power(self) -> Node:
        base = self._postfix(self._atom())
        if not self._accept("^"):
            return base
        exponent = self._script()
        power = self._postfix(Op("pow", (base, exponent)))
        if self._accept("^"):
            exponent = Op("pow", (exponent, self._script()))
            power = Op("pow", (base, exponent))
        return power

    def _script(self) -> Node:
        if self._accept("{"):
            node = self._sum()
            self._expect("}")
            return node
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError("nested too deep")
        node = self._signed()
        self._depth -= 1
        return node

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._accept("!"):
                node = Op("fact", (node,))
            elif self._accept("_"):
                node = Op("sub", (node, self._subscript()))
            elif self._accept("%"):
                node = Op("div", (node, Num(Fraction(100))))
            elif self._accept("degree"):
                node = Op("mul", (node, Op("div", (Sym("pi"), Num(Fraction(180))))))
            else:
                return node

    def _subscript(self) -> Node:
        if self._accept("{"):
            node = self._sum()
            self._expect("}")
            return node
        return self._atom()

    def _atom(self) -> Node:
        token = self._next()
        if token.kind == "num":
            return self._number(token)
        if token.kind == "word":
            return self._word(token)
        if token.kind == "cmd":
            return self._command(token.text)
        if token.text in _CLOSERS:
            node = self._sum()
            self._expect(_CLOSERS[token.text])
            return node
        if token.text == "|":
            node = self._sum()
            self._expect("|")
            return Op("abs", (node,))
        raise UnreadableError(f"unexpected {token.text!r}" if token.text else "unexpected end")

    def _word(self, token: Token) -> Node:
        name = token.text
        if name in _CONSTANT_WORDS:
            return Sym(_CONSTANT_WORDS[name])
        if name in _WORD_FUNCTIONS:
            return self._function(name)
        if len(name) == 1:
            return Sym(name)
        if len(name) > 3 or not name.isascii():
            raise UnreadableError(f"unknown word {name!r}")
        return Op("mul", tuple(Sym(letter) for letter in name))

    def _command(self, name: str) -> Node:
        if name == "frac":
            return Op("div", (self._argument(), self._argument()))
        if name == "sqrt":
            return self._root()
        if name in ("binom", "dbinom", "tbinom"):
            return Op("binom", (self._argument(), self._argument()))
        if name in ("infty", "pi"):
            return Sym("oo" if name == "infty" else "pi")
        if name in _DELIMITED:
            return self._delimited(name)
        if name in FUNCTIONS:
            return self._function(name)
        if name in _GREEK:
            return Sym(_ALIASES.get(name, name))
        raise UnreadableError(f"unknown command \\{name}")

    def _argument(self) -> Node:
        if self._accept("{"):
            node = self._sum()
            self._expect("}")
            return node
        token = self._peek()
        if token.kind == "num" and len(token.text) > 1 and token.text.isdigit():
            return self._first_digit(token)
        return self._atom()

    def _root(self) -> Node:
        degree: Node = Num(Fraction(2))
        if self._accept("["):
            degree = self._sum()
            self._expect("]")
        return Op("root", (self._argument(), degree))

    def _delimited(self, name: str) -> Node:
        function, closer = _DELIMITED[name]
        node = self._sum()
        self._expect(closer)
        return Op(function, (node,))

    def _function(self, name: str) -> Node:
        name = _ALIASES.get(name, name)
        if name in ("sqrt", "cbrt"):
            return Op("root", (self._argument(), Num(Fraction(2 if name == "sqrt" else 3))))
        base = (self._subscript(),) if self._accept("_") else ()
        power = self._script() if self._accept("^") else None
        if power == Op("neg", (Num(Fraction(1)),)) and name in ("sin", "cos", "tan"):
            return Op(f"arc{name}", self._function_arguments())
        if power is not None and name.startswith(("arc",)):
            raise UnreadableError("power of an inverse function")
        node: Node = Op(name, (*self._function_arguments(), *base))
        return Op("pow", (node, power)) if power is not None else node

    def _function_arguments(self) -> tuple[Node, ...]:
        for opener in ("(", "{"):
            if self._accept(opener):
                arguments = [self._sum()]
                while self._accept(","):
                    arguments.append(self._sum())
                self._expect(_CLOSERS[opener])
                return tuple(arguments)
        node = self._power()
        factors = [node]
        while self._peek().kind in ("num", "word") and self._peek().text not in FUNCTIONS:
            factors.append(self._power())
        return (_joined("mul", factors),)


_DELIMITED: Final = {
    "lfloor": ("floor", "rfloor"),
    "lceil": ("ceil", "rceil"),
}
_OPERATORS: Final = (
    "cdot times div ast pm mp rfloor rceil rangle langle degree in cup cap le ge ne approx lt gt "
    "text"
)
_OPERATOR_COMMANDS: Final = frozenset(_OPERATORS.split())


def _joined(name: str, parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Op(name, tuple(parts))


def parse_expression(tokens: Sequence[Token]) -> Node:
    """Return the tree of one expression.

    Raises:
        UnreadableError: When the tokens are not one well-formed expression.
    """
    if not tokens:
        raise UnreadableError("empty expression")
    return ExpressionParser(tokens).parse()
