"""Number literals: decimals, repeating decimals, scientific notation, mixed numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from grpo_core.rewards.nodes import Node, Num, Op
from grpo_core.rewards.tokens import Token, UnreadableError

END: Final = Token("end", "", "")


def number(text: str) -> Num:
    """Return an exact number from ASCII digits with at most one decimal point.

    Args:
        text: Digits of any count; the interpreter's limit on int() does not apply.
    """
    whole, point, decimals = text.partition(".")
    value = Fraction(_big_int(whole + decimals), 10 ** len(decimals))
    return Num(value, len((whole + decimals).lstrip("0")) or 1 if point else 0)


def _big_int(digits: str) -> int:
    if len(digits) <= 4000:
        return int(digits or "0")
    half = len(digits) // 2
    shift: int = 10**half
    return _big_int(digits[:-half]) * shift + _big_int(digits[-half:])


def _is_proper(top: Node, bottom: Node) -> bool:
    """Whether two nodes are the integers of a fraction between 0 and 1."""
    return (
        isinstance(top, Num)
        and isinstance(bottom, Num)
        and not top.digits
        and not bottom.digits
        and 0 < top.value < bottom.value
    )


def _periodic(fixed: str, period: str) -> Num:
    decimals = len(fixed.partition(".")[2])
    tail = Fraction(_big_int(period), (10 ** len(period) - 1) * 10**decimals)
    base = number(fixed + "0" if fixed.endswith(".") else fixed).value
    return Num(base + tail)


class LiteralParser:
    """A cursor over tokens that reads number literals.

    Args:
        tokens: The tokens; all of them must belong to one expression.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def _peek(self, ahead: int = 0) -> Token:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else END

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, *texts: str) -> str | None:
        token = self._peek()
        if token.kind in ("op", "cmd") and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._accept(text) is None:
            raise UnreadableError(f"expected {text!r}, got {self._peek().text!r}")

    def _argument(self) -> Node:
        raise NotImplementedError

    def _number(self, token: Token) -> Node:
        if token.text.count(".") > 1:
            return number(token.text.replace(".", ""))
        value = number(token.text)
        following = self._peek()
        if following.kind == "cmd" and following.text in ("overline", "bar", "dot"):
            return self._repeating(token.text)
        if following.kind == "op" and following.text == "(" and "." in token.text:
            run, close = self._peek(1), self._peek(2)
            if run.kind == "num" and "." not in run.text and close.text == ")":
                return self._parenthesised_period(token.text, run.text)
        return self._scientific(value) or self._mixed(value) or value

    def _repeating(self, fixed: str) -> Node:
        if "." not in fixed:
            fixed += "."
        self._next()
        period = self._digits_in_braces()
        return _periodic(fixed, period)

    def _digits_in_braces(self) -> str:
        braced = self._accept("{")
        token = self._next()
        if token.kind != "num" or "." in token.text:
            raise UnreadableError("a repeating part must be digits")
        if braced:
            self._expect("}")
        return token.text

    def _parenthesised_period(self, fixed: str, period: str) -> Node:
        if self._peek().space:
            return number(fixed)
        self._at += 3
        return _periodic(fixed, period)

    def _scientific(self, value: Num) -> Node | None:
        letter, following = self._peek(), self._peek(1)
        if letter.text not in ("e", "E") or letter.kind != "word" or letter.space:
            return None
        signed = following.text in ("-", "+")
        digits = self._peek(2) if signed else following
        if digits.kind != "num" or "." in digits.text or digits.space:
            return None
        self._at += 3 if signed else 2
        exponent = number(digits.text).value * (-1 if following.text == "-" else 1)
        return Op("mul", (value, Op("pow", (Num(Fraction(10)), Num(exponent)))))

    def _mixed(self, whole: Num) -> Node | None:
        if whole.digits:
            return None
        start, parts = self._at, []
        if self._accept("frac"):
            parts = [self._argument(), self._argument()]
        elif self._peek().kind == self._peek(2).kind == "num" and self._peek().space:
            parts = [number(self._next().text), number(self._peek(1).text)]
            self._at += 2 if self._peek().text == "/" else 0
        if len(parts) == 2 and _is_proper(parts[0], parts[1]) and self._at > start + 1:
            return Op("add", (whole, Op("div", (parts[0], parts[1]))))
        self._at = start
        return None

    def _first_digit(self, token: Token) -> Node:
        split = (Token("num", token.text[0], token.space), Token("num", token.text[1:], ""))
        self._tokens = [*self._tokens[: self._at], *split, *self._tokens[self._at + 1 :]]
        return number(self._next().text)
