r"""Answer text to an answer: lists, intervals, relations, units, choices, then expressions.

The reader works on tokens, never evaluates, and is bounded: linear scans, bounded nesting.
"""

import re
from fractions import Fraction
from itertools import pairwise
from typing import Final

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
from grpo_core.rewards.characters import GROUP_SPACE
from grpo_core.rewards.literals import number
from grpo_core.rewards.nodes import Num, Op, Sym
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.quantities import QuantityReader
from grpo_core.rewards.structure import (
    OPEN,
    Tokens,
    encloses,
    has_relation,
    is_comma,
    is_or,
    levels,
    split,
    strip,
)
from grpo_core.rewards.tokens import Token, UnreadableError, clean, tokenize
from grpo_core.rewards.words import normal_text

_PLAIN: Final = re.compile(r"-?\d{1,4000}(?:\.\d{1,4000})?\Z")
_GROUPED: Final = re.compile(r"-?\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?\Z")
_RELATIONS: Final = {
    "=": "=",
    "equiv": "=",
    "<": "<",
    "lt": "<",
    "le": "<=",
    ">": ">",
    "gt": ">",
    "ge": ">=",
    "ne": "!=",
    "approx": "~",
    "in": "in",
}
_REALS: Final = frozenset({"mathbb{R}", "mathbbR", "allrealnumbers", "allreals"})
_UNNAMED: Final = Token("word", "x", "")
"""Stands for the side that a bare relation leaves out: `< 6` is `x < 6`."""
_MAX_DEPTH: Final = 12
_MAX_BRACKETS: Final = 60
_NAMES: Final = frozenset({"pi", "infinity", "inf", "oo", "infty"})
_CHOICE: Final = re.compile(
    r"(?:option|choice|answer)?\s*[(\[]?\s*([A-Ja-j])\s*(?:[)\].:]|\Z)", re.IGNORECASE
)
_MATRIX: Final = re.compile(
    r"\\begin\{([pbvB]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}\Z", re.DOTALL
)


def read_plain(text: str) -> Num | None:
    """Return a plain number (`-12`, `3.50`, `1,234`), or None when it is anything else."""
    if _PLAIN.match(text):
        value = number(text.lstrip("-"))
    elif _GROUPED.match(text):
        value = number(text.lstrip("-").replace(",", ""))
    else:
        return None
    return Num(-value.value, value.digits) if text[0] == "-" else value


def read_answer(
    text: str, options: VerifierOptions, *, answer_type: str | None = None
) -> Answer | None:
    """Return what an answer text says, None when it says nothing readable.

    Args:
        text: The answer, without its marker or box.
        options: The grader's choices.
        answer_type: What the data set knows about its golds.
    """
    text = text.strip()
    if answer_type in (None, "number") and (plain := read_plain(text)) is not None:
        return Scalar(plain)
    if len(text) > options.max_answer_chars:
        return None
    try:
        return _Reader(options, answer_type).read_text(text)
    except UnreadableError:
        return None


class _Reader(QuantityReader):
    def read_text(self, text: str) -> Answer | None:
        if self._type == "choice":
            return read_choice(text)
        if self._type == "text":
            return _as_text(text)
        if self._type == "boolean":
            return _as_boolean(text)
        cleaned = clean(text)
        if matrix := _MATRIX.match(_unwrapped(cleaned)):
            return self._matrix(matrix[2])
        tokens = strip(tokenize(cleaned))
        if max((level for _, level in levels(tokens)), default=0) > _MAX_BRACKETS:
            raise UnreadableError("nested too deep")
        if len(tokens) == 1 and tokens[0].kind in ("word", "text") and _is_word(tokens[0].text):
            return self._lone_word(tokens)
        try:
            return self._read(tokens, 0)
        except UnreadableError:
            return self._unread(cleaned, tokens)

    def _lone_word(self, tokens: Tokens) -> Answer | None:
        number = self._worded(tokens)
        return number if number is not None else _as_text(tokens[0].text)

    def _unread(self, text: str, tokens: Tokens) -> Answer | None:
        words = sum(token.kind in ("word", "text") and len(token.text) > 1 for token in tokens)
        if any(token.kind == "cmd" for token in tokens) and words <= 4:
            return Opaque(text.replace(GROUP_SPACE, " ").replace(r"\degree", r"^\circ"))
        return _as_text(text) if words and not _has_code(tokens) else None

    def _matrix(self, body: str) -> Matrix:
        rows = [row for row in re.split(r"\\\\", body) if row.strip()]
        cells = [[strip(tokenize(cell)) for cell in row.split("&")] for row in rows]
        return Matrix(tuple(tuple(self._read(cell, 1) for cell in row) for row in cells))

    def _read(self, tokens: Tokens, depth: int) -> Answer:
        if not tokens or depth > _MAX_DEPTH:
            raise UnreadableError("empty" if not tokens else "nested too deep")
        for reader in (
            self._alternatives,
            self._compound,
            self._relation_list,
            self._listed,
            self._relation,
            self._bracketed,
            self._united,
            self._clock,
        ):
            answer = reader(tokens, depth)
            if answer is not None:
                return answer
        return self._scalar(tokens)

    def _alternatives(self, tokens: Tokens, depth: int) -> Answer | None:
        parts = split(tokens, is_or)
        if len(parts) < 2:
            return None
        parts = [part[:-1] if part and part[-1].text == "," else part for part in parts]
        if parts[0] and parts[0][0].text.lower() == "either":
            parts[0] = parts[0][1:]
        return Items("or", tuple(self._alternative(strip(part), depth + 1) for part in parts))

    def _alternative(self, tokens: Tokens, depth: int) -> Answer:
        try:
            return self._read(tokens, depth)
        except UnreadableError:
            return Text(normal_text(" ".join(token.text for token in tokens)))

    def _relation_list(self, tokens: Tokens, depth: int) -> Answer | None:
        """`n=1,2,3`: one left side, several values; `x=1, y=2` is left to the list reader."""
        parts = split(tokens, is_comma)
        if len(parts) < 2 or not has_relation(parts[0]):
            return None
        if any(has_relation(part) for part in parts[1:]):
            return None
        sides = split(tokens, lambda token: token.text in ("=", "in"))
        if len(sides) != 2:
            return None
        left, right = (self._read(strip(side), depth + 1) for side in sides)
        return Relation((left, right), ("=",))

    def _listed(self, tokens: Tokens, depth: int) -> Answer | None:
        tokens = self._grouped(tokens, commas=True)
        parts = split(tokens, is_comma)
        if len(parts) < 2:
            return None
        if self._is_mixed_words(parts):
            return None
        items = [self._read(strip(part), depth + 1) for part in parts if part]
        ordered = self._type in ("tuple", "list") or _are_assignments(items)
        return Items("tuple" if ordered else "list", tuple(items))

    def _is_mixed_words(self, parts: list[Tokens]) -> bool:
        return len(parts) == 2 and any(not part for part in parts)

    def _relation(self, tokens: Tokens, depth: int) -> Answer | None:
        operators: list[str] = []
        sides: list[Tokens] = [[]]
        for token, level in levels(tokens):
            if level == 0 and token.kind in ("op", "cmd") and token.text in _RELATIONS:
                operators.append(_RELATIONS[token.text])
                sides.append([])
            else:
                sides[-1].append(token)
        if not operators:
            return None
        kept = [(side, i) for i, side in enumerate(sides) if side]
        if len(kept) == 1 and operators in (["="], ["~"], ["in"]):
            return self._read(strip(kept[0][0]), depth + 1)
        if len(kept) == 1 and len(operators) == 1:
            sides = [side or [_UNNAMED] for side in sides]
        left = self._alternative if operators[0] == "=" else self._read
        read = [left(strip(sides[0]), depth + 1)]
        read += [self._read(strip(side), depth + 1) for side in sides[1:]]
        return Relation(tuple(read), tuple(operators))

    def _bracketed(self, tokens: Tokens, depth: int) -> Answer | None:
        first, last = tokens[0].text, tokens[-1].text
        if len(tokens) < 2 or first not in ("(", "[", "]", "\\{", "langle", "{"):
            return None
        if first == "]" or (first in "([" and last in ")][" and last != OPEN[first]):
            return self._interval(tokens, depth)
        if not encloses(tokens):
            return None
        inner = strip(tokens[1:-1])
        if first == "\\{":
            return self._set(inner, depth)
        parts = self._parts(inner)
        if len(parts) < 2:
            return None if first == "{" else self._read_single(inner, depth)
        if first == "[" and len(parts) == 2:
            return self._interval(tokens, depth)
        return Items("tuple", self._read_parts(parts, depth))

    def _read_single(self, inner: Tokens, depth: int) -> Answer | None:
        answer = self._read(inner, depth + 1)
        return answer if not isinstance(answer, Scalar) or answer.unit else None

    def _parts(self, inner: Tokens) -> list[Tokens]:
        if any(token.text == ";" for token in inner):
            return split(inner, lambda token: token.text == ";")
        spaced = any(t.text == "," and n.space for t, n in pairwise(inner))
        return split(self._grouped(inner, commas=spaced), is_comma)

    def _read_parts(self, parts: list[Tokens], depth: int) -> tuple[Answer, ...]:
        return tuple(self._read(strip(part), depth + 1) for part in parts)

    def _set(self, inner: Tokens, depth: int) -> Answer:
        if not inner:
            return Items("set", ())
        if any(token.text in ("|", ":") for token in inner):
            raise UnreadableError("set builder")
        return Items("set", self._read_parts(self._parts(inner), depth))

    def _interval(self, tokens: Tokens, depth: int) -> Answer | None:
        parts = self._parts(strip(tokens[1:-1]))
        if len(parts) != 2:
            return None
        low, high = self._read_parts(parts, depth)
        if not isinstance(low, Scalar) or not isinstance(high, Scalar):
            return None
        return Interval(low, high, tokens[0].text == "[", tokens[-1].text == "]")

    def _united(self, tokens: Tokens, depth: int) -> Answer | None:
        if len(tokens) == 1 and tokens[0].text in ("emptyset", "varnothing"):
            return Items("set", ())
        if "".join(token.text for token in tokens) in _REALS:
            return Interval(Scalar(Op("neg", (Sym("oo"),))), Scalar(Sym("oo")), False, False)
        parts = split(tokens, lambda token: token.text == "cup" or token[:2] == ("word", "U"))
        if len(parts) < 2 or not all(part and part[-1].text in _BRACKETS for part in parts):
            return None
        return Union(self._read_parts(parts, depth))

    def _clock(self, tokens: Tokens, depth: int) -> Answer | None:
        del depth
        texts = [token.text.lower() for token in tokens]
        match = _CLOCK.match(" ".join(texts))
        if match is None:
            return self._ratio(tokens)
        parts = tuple(Fraction(part) for part in re.split(r"\s*:\s*", match[1]))
        parts = parts if len(parts) > 1 else (*parts, Fraction(0))
        meridiem = re.sub("[^apm]", "", match[2] or "")
        is_time = all(len(part) == 2 for part in match[1].replace(" ", "").split(":")[1:])
        return Clock(parts, meridiem, is_time)

    def _ratio(self, tokens: Tokens) -> Answer | None:
        parts = split(tokens, lambda token: token.text in (":", "to"))
        if len(parts) < 2:
            return None
        values = [self._scalar(part).node for part in parts if part]
        if len(values) != len(parts) or not all(isinstance(value, Num) for value in values):
            raise UnreadableError("not a ratio of numbers")
        return Clock(tuple(v.value for v in values if isinstance(v, Num)), "", False)


_BRACKETS: Final = frozenset({")", "]", "\\}", "[", "}"})
_CLOCK: Final = re.compile(
    r"(\d{1,2}(?: : \d{2}){1,2}|\d{1,2}(?= [ap]))(?: (a ?\.? ?m ?\.?|p ?\.? ?m ?\.?|noon))?\Z"
)


def _as_text(text: str) -> Text | None:
    words = normal_text(re.sub(r"\\[a-zA-Z]+", " ", text))
    return Text(words) if words else None


def _as_boolean(text: str) -> Text | None:
    words = _as_text(text)
    if words is None:
        return None
    truth = {"yes": "true", "no": "false", "t": "true", "f": "false"}
    return Text(truth.get(words.words, words.words))


def _is_word(text: str) -> bool:
    return len(text) > 1 and text.lower() not in _NAMES


def _unwrapped(text: str) -> str:
    return text[1:-1] if text.startswith("{") and text.endswith("}") else text


def read_choice(text: str) -> Choice | None:
    """Return the choice a text starts with: `B`, `(B)`, `B) 42`, `Option B`; None otherwise."""
    plain = re.sub(r"\\(?:text|textbf|mathrm|mathbf|boxed)\s*\{|[{}$*\\]", "", text).strip()
    match = _CHOICE.match(plain)
    return Choice(match[1].upper()) if match else None


def _are_assignments(items: list[Answer]) -> bool:
    names = [
        item.sides[0].node
        for item in items
        if isinstance(item, Relation)
        and item.operators == ("=",)
        and isinstance(item.sides[0], Scalar)
    ]
    return len(names) == len(items) and len(set(names)) == len(names)


def _has_code(tokens: Tokens) -> bool:
    return any(token.text in ("_", "=", '"', "^") or token.text == "'" for token in tokens)
