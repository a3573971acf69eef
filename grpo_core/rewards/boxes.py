r"""Boxes: `\boxed{...}`, `\fbox{...}`, spaced, nested, unbraced and unterminated.

One pass over the text, whatever its length and nesting.
"""

import re
from typing import Final, NamedTuple

_BOX: Final = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-zA-Z])\s*")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_UNBRACED: Final = re.compile(
    r"\\[dtc]?frac\s*(?:\{[^{}]*\}|\d)\s*(?:\{[^{}]*\}|\d)|[-+]?\$?[\d.,]*\d|[A-Za-z]\b"
)
_BREAK: Final = re.compile(r"\$|\n")


class Box(NamedTuple):
    """One box: where it stands, what it holds, whether its brace was closed."""

    start: int
    end: int
    content: str
    closed: bool


def find_boxes(text: str) -> list[Box]:
    """Return the outermost boxes of a text, in order."""
    if "\\boxed" not in text and "\\fbox" not in text and "\\framebox" not in text:
        return []
    closes = _matching_braces(text)
    boxes: list[Box] = []
    for match in _BOX.finditer(text):
        if boxes and match.start() < boxes[-1].end:
            continue
        box = _box_at(text, match, closes)
        if box is not None:
            boxes.append(box)
    return boxes


def _matching_braces(text: str) -> dict[int, int]:
    stack: list[int] = []
    closes: dict[int, int] = {}
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            stack.append(match.start())
        elif match[0] == "}" and stack:
            closes[stack.pop()] = match.start()
    return closes


def _box_at(text: str, match: re.Match[str], closes: dict[int, int]) -> Box | None:
    start, inside = match.start(), match.end()
    if not text.startswith("{", inside):
        bare = _UNBRACED.match(text, inside)
        return Box(start, bare.end(), bare[0], True) if bare else None
    close = closes.get(inside)
    if close is not None:
        return Box(start, close + 1, _inner(text[inside + 1 : close]), True)
    rest = text[inside + 1 :].rstrip()
    stop = _BREAK.search(rest)
    if stop is not None:
        return Box(start, inside + 1 + stop.start(), rest[: stop.start()], True)
    return Box(start, len(text), rest, False)


def _inner(content: str) -> str:
    """Return what a box in a box holds."""
    for _ in range(8):
        nested = _BOX.match(content.strip())
        if nested is None:
            return content
        body = content.strip()[nested.end() :]
        if not (body.startswith("{") and body.endswith("}")):
            return content
        content = body[1:-1]
    return content
