"""The bracket structure of token runs."""

from collections.abc import Callable, Sequence
from typing import Final

from grpo_core.rewards.tokens import Token

Tokens = list[Token]
OPEN: Final = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "langle": "rangle", "lfloor": "rfloor"}
_CLOSE: Final = frozenset(OPEN.values())


def strip(tokens: Tokens) -> Tokens:
    """Return tokens without trailing stops and without braces around the whole."""
    while tokens and tokens[-1].text in (".", ",", ";", ":", "?"):
        tokens = tokens[:-1]
    closing = _brace_pairs(tokens)
    low, high = 0, len(tokens)
    while high - low > 1 and tokens[low].text == "{" and closing.get(low) == high - 1:
        low, high = low + 1, high - 1
    return tokens[low:high]


def _brace_pairs(tokens: Sequence[Token]) -> dict[int, int]:
    stack: list[int] = []
    pairs: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token.text == "{":
            stack.append(index)
        elif token.text == "}" and stack:
            pairs[stack.pop()] = index
    return pairs


def levels(tokens: Sequence[Token]) -> list[tuple[Token, int]]:
    """Return each token with its bracket level; the inside of `]1,3[` counts as level one."""
    level = 0
    found: list[tuple[Token, int]] = []
    outward = len(tokens) > 1 and tokens[0].text == "]"
    for index, token in enumerate(tokens):
        opens, closes = token.text in OPEN, token.text in _CLOSE
        if outward and token.text in "[]":
            opens, closes = index == 0, index == len(tokens) - 1
        if closes and token.kind in ("op", "cmd"):
            level = max(level - 1, 0)
        found.append((token, level))
        if opens and token.kind in ("op", "cmd"):
            level += 1
    return found


def encloses(tokens: Tokens) -> bool:
    """Whether the first and the last token are one pair of brackets around all the rest."""
    inside = levels(tokens)[1:-1]
    return tokens[-1].text == OPEN.get(tokens[0].text) and all(level > 0 for _, level in inside)


def split(tokens: Tokens, is_separator: Callable[[Token], bool]) -> list[Tokens]:
    """Return the runs between separators outside all brackets."""
    parts: list[Tokens] = [[]]
    for token, level in levels(tokens):
        if level == 0 and is_separator(token):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def is_or(token: Token) -> bool:
    """Whether a token offers an alternative."""
    return token.text in ("or", "lor", "\u6216") and token.kind in ("word", "text", "cmd")


def is_comma(token: Token) -> bool:
    """Whether a token separates the items of a list."""
    return token.text in (",", ";") or (
        token.text in ("and", "&") and token.kind in ("word", "text", "op")
    )


def has_relation(tokens: Tokens) -> bool:
    """Whether an equals sign or `in` stands outside all brackets."""
    return any(token.text in ("=", "in") and level == 0 for token, level in levels(tokens))
