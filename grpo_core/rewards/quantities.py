"""Single values with what stands around them: currency, units, scale words, bases."""

import re
from fractions import Fraction
from typing import Final

from grpo_core.rewards.answers import Answer, Scalar
from grpo_core.rewards.expression import parse_expression
from grpo_core.rewards.grouping import merge_groups
from grpo_core.rewards.literals import number
from grpo_core.rewards.nodes import Node, Num, Op, Sym
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.structure import Tokens, levels, strip
from grpo_core.rewards.tokens import UnreadableError
from grpo_core.rewards.units import Unit, is_currency, lookup, parse_unit, starts_unit
from grpo_core.rewards.words import SCALE_WORDS, leading_number

_CURRENCY_WORDS: Final = frozenset({"usd", "eur", "gbp", "jpy", "inr", "rs"})
_TRIGONOMETRY: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_UNIT_COMMANDS: Final = frozenset({"degree", "mu", "\u00b5"})


class QuantityReader:
    """Reads single values.

    Args:
        options: The grader's choices.
        answer_type: What the data set knows about its golds.
    """

    def __init__(self, options: VerifierOptions, answer_type: str | None) -> None:
        self._options = options
        self._type = answer_type

    def _grouped(self, tokens: Tokens, *, commas: bool) -> Tokens:
        listed = self._type in ("set", "list", "tuple")
        decimal = self._options.decimal_comma
        return merge_groups(tokens, commas=commas and not listed, decimal_comma=decimal)

    def _scalar(self, tokens: Tokens) -> Scalar:
        tokens = strip(self._grouped(tokens, commas=True))
        if not tokens:
            raise UnreadableError("empty")
        sign: Node | None = None
        if len(tokens) > 1 and tokens[0].text in ("-", "+") and is_currency(tokens[1].text):
            sign, tokens = (Num(Fraction(-1)) if tokens[0].text == "-" else None), tokens[1:]
        unit, tokens = _currency(tokens)
        scalar = self._measured(tokens)
        node = Op("neg", (scalar.node,)) if sign else scalar.node
        return Scalar(node, unit or scalar.unit, scalar.base)

    def _compound(self, tokens: Tokens, depth: int) -> Answer | None:
        """`5 feet 6 inches`, `3 hours and 30 minutes`: one quantity in two units."""
        del depth
        starts = [index for index, token in enumerate(tokens) if token.kind == "num"]
        if len(starts) != 2 or starts[0] != 0 or not 4 <= len(tokens) <= 6:
            return None
        first = [token for token in tokens[: starts[1]] if token.text not in (",", "and")]
        second = tokens[starts[1] :]
        if len(first) != 2 or len(second) != 2:
            return None
        units = [lookup(part[1].text) for part in (first, second)]
        large, small = units
        if large is None or small is None or large.dimension != small.dimension:
            return None
        if large.factor <= small.factor:
            return None
        values = [number(part[0].text).value for part in (first, second)]
        total = values[0] + values[1] * small.factor / large.factor
        return Scalar(Num(total), large)

    def _measured(self, tokens: Tokens) -> Scalar:
        if based := self._based(tokens):
            return based
        if worded := self._worded(tokens):
            return worded
        depths = [level for _, level in levels(tokens)]
        for at in range(1, len(tokens)):
            if depths[at] == 0 and _may_be_unit(tokens, at):
                scalar = self._with_unit(tokens, at)
                if scalar is not None:
                    return scalar
        return Scalar(parse_expression(tokens))

    def _with_unit(self, tokens: Tokens, at: int) -> Scalar | None:
        scale, rest = _scale_word(tokens[at:])
        unit = parse_unit(rest) if rest else None
        if unit is None and (rest or scale == 1):
            return None
        try:
            head = parse_expression(tokens[:at])
        except UnreadableError:
            return None
        if _has_variable(head) or (tokens[at].text == "degree" and _has_angle(head)):
            return None
        node = Op("mul", (head, Num(Fraction(scale)))) if scale != 1 else head
        return Scalar(node, unit)

    def _based(self, tokens: Tokens) -> Scalar | None:
        texts = "".join(token.text for token in tokens)
        match = re.fullmatch(r"\(?(\d+)\)?_(?:\{(\d{1,2})\}|(\d{1,2}))", texts)
        if match is None:
            return None
        return Scalar(number(match[1]), base=int(match[2] or match[3]))

    def _worded(self, tokens: Tokens) -> Scalar | None:
        if not self._options.number_words or tokens[0].kind not in ("word", "text"):
            return None
        sign = tokens[0].text.lower() in ("minus", "negative")
        tokens = tokens[1:] if sign else tokens
        words = [token.text.lower() for token in tokens if token.text != "-"]
        found = leading_number(words)
        if found is None:
            if sign and tokens and tokens[0].kind in ("num", "cmd"):
                scalar = self._measured(tokens)
                return Scalar(Op("neg", (scalar.node,)), scalar.unit, scalar.base)
            return None
        rest = [token for token in tokens if token.text != "-"][found[1] :]
        unit = parse_unit(rest) if rest else None
        if rest and unit is None:
            return None
        return Scalar(Num(-found[0] if sign else found[0]), unit)


def _may_be_unit(tokens: Tokens, at: int) -> bool:
    token = tokens[at]
    if token.kind == "text":
        return True
    if token.kind == "cmd":
        return token.text in _UNIT_COMMANDS
    if token.kind == "op":
        return token.text in ("%", "$", "\\$", "\u00a2", "\u20ac", "\u00a3", "\u2030", "'", '"')
    if token.kind != "word" or tokens[at - 1].text in ("^", "_", "(", "{", "/", "*", "+", "-"):
        return False
    return starts_unit(token.text)


def _scale_word(tokens: Tokens) -> tuple[int, Tokens]:
    scale = 1
    while tokens and tokens[0].text.lower() in SCALE_WORDS:
        scale, tokens = scale * SCALE_WORDS[tokens[0].text.lower()], tokens[1:]
    return scale, tokens


def _currency(tokens: Tokens) -> tuple[Unit | None, Tokens]:
    """Split off a currency that stands before a number: `$5`, `US$5`, `Rs. 5`, `EUR 5`."""
    if len(tokens) > 2 and tokens[0].text == "US" and is_currency(tokens[1].text):
        tokens = tokens[1:]
    first = tokens[0].text
    if len(tokens) < 2 or not (is_currency(first) or first.lower() in _CURRENCY_WORDS):
        return None, tokens
    dotted = len(tokens) > 2 and tokens[1].text == "."
    return lookup(first.removeprefix("\\")), tokens[2 if dotted else 1 :]


def _has_angle(node: Node) -> bool:
    if not isinstance(node, Op):
        return False
    return node.name in _TRIGONOMETRY or any(map(_has_angle, node.args))


def _has_variable(node: Node) -> bool:
    if isinstance(node, Sym):
        return node.name not in ("pi", "e")
    return isinstance(node, Op) and any(_has_variable(part) for part in node.args)
