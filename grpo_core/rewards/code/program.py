"""Finds the program in a completion."""

import ast
import re
from typing import Final

from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.visible import without_reasoning

_FENCE: Final = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*$", re.MULTILINE)
_LANGUAGES: Final = ("", "python", "python3", "py")


def find_program(completion: str, options: VerifierOptions) -> tuple[str | None, str]:
    """Return the program that a completion commits to, or None, and how it was found.

    The last closed Python block counts; without any block the whole visible text, when it is
    Python. A block that the text ends in is cut off and counts only by
    `VerifierOptions.accept_unterminated`.
    """
    text = without_reasoning(completion, options)
    blocks, is_open = _blocks(text, accept_open=options.accept_unterminated)
    if blocks:
        return blocks[-1], "the last program block"
    if is_open:
        return None, "the program block is cut off"
    if text.strip() and _is_python(text):
        return text, "the whole text is a program"
    return None, "there is no program"


def _blocks(text: str, *, accept_open: bool) -> tuple[list[str], bool]:
    """Contents of the Python blocks, and whether the text ends inside a block."""
    found: list[str] = []
    start, fence, language = -1, "", ""
    for match in _FENCE.finditer(text):
        if start < 0:
            start, fence, language = match.end() + 1, match[1], match[2].lower()
        elif match[1].startswith(fence) and not match[2]:
            if language in _LANGUAGES:
                found.append(text[start : match.start()])
            start = -1
    if start >= 0 and accept_open and language in _LANGUAGES:
        found.append(text[start:])
    return found, start >= 0


def _is_python(text: str) -> bool:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in body)
