r"""Digit groups: 1,234 and its relatives, merged into one number token.

Western (1,234,567), Indian (12,34,567), TeX (`1{,}234`), Swiss (1'234), code (1_234), ISO (1 234,
with a no-break, thin or plain space) and European dots (1.234.567, 1.234,56). `12,34` is none.
"""

from collections.abc import Sequence
from typing import Final

from grpo_core.rewards.characters import GROUP_SPACE
from grpo_core.rewards.tokens import Token

_SEPARATORS: Final = (",", "{,}", "'", "_")
Run = tuple[str, list[Token], int]


def merge_groups(
    tokens: Sequence[Token], *, commas: bool, decimal_comma: bool = False
) -> list[Token]:
    """Return the tokens with every run of digit groups merged.

    Args:
        tokens: Tokens of one answer.
        commas: Whether commas may group (they do not inside a bracketed list).
        decimal_comma: Whether `3,5` is read as 3.5.
    """
    merged: list[Token] = []
    at = 0
    while at < len(tokens):
        separator, parts, end = _run(tokens, at)
        digits = _joined(separator, parts, tokens, end, commas, decimal_comma)
        if digits is None:
            merged.append(tokens[at])
            if len(parts) > 1 and separator in (",",):
                merged.extend(tokens[at + 1 : end])
                at = end
            else:
                at += 1
        else:
            merged.append(Token("num", digits, tokens[at].space))
            at = end
    return merged


def _run(tokens: Sequence[Token], at: int) -> Run:
    """Return the longest run of numbers with one separator, from a number token on."""
    parts = [tokens[at]]
    if tokens[at].kind != "num":
        return "", parts, at + 1
    separator, end = "", at + 1
    while end < len(tokens):
        here = tokens[end]
        if here.kind == "num" and here.space and separator in ("", here.space):
            separator, step = here.space, 1
        elif (
            here.text in _SEPARATORS
            and not here.space
            and separator in ("", here.text)
            and end + 1 < len(tokens)
            and tokens[end + 1].kind == "num"
            and not tokens[end + 1].space
        ):
            separator, step = here.text, 2
        else:
            break
        parts.append(tokens[end + step - 1])
        end += step
    return separator, parts, end


def _joined(
    separator: str,
    parts: list[Token],
    tokens: Sequence[Token],
    end: int,
    commas: bool,
    decimal_comma: bool,
) -> str | None:
    if len(parts) < 2 or (separator == "," and not commas):
        return None
    first, *rest = [part.text for part in parts]
    if separator in (" ", GROUP_SPACE) and end < len(tokens) and tokens[end].text == "/":
        return None
    if _is_grouped(separator, first, rest):
        return first + "".join(rest)
    if len(rest) == 1 and rest[0].isdigit():
        dotted = first.split(".")
        if (
            separator in (",", "{,}")
            and len(dotted) > 1
            and _is_grouped(".", dotted[0], dotted[1:])
        ):
            return "".join(dotted) + "." + rest[0] if len(rest[0]) != 3 else None
        if first.isdigit() and (separator == "{,}" or (separator == "," and decimal_comma)):
            return f"{first}.{rest[0]}"
    return None


def _is_grouped(separator: str, first: str, rest: list[str]) -> bool:
    """Whether parts of digits are groups of one number; only the last may carry decimals."""
    if not first.isdigit() or len(first) > 3 or (first[0] == "0"):
        return False
    wholes = [*rest[:-1], rest[-1].partition(".")[0]]
    if any(not part.isdigit() for part in wholes):
        return False
    western = all(len(part) == 3 for part in wholes)
    indian = (
        separator in (",", "{,}")
        and len(wholes) > 1
        and len(first) <= 2
        and len(wholes[-1]) == 3
        and all(len(part) == 2 for part in wholes[:-1])
    )
    return western or indian
