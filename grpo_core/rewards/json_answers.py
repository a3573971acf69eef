"""Completions that are one JSON object with an answer field."""

import json
import re
from typing import Final

_FENCE: Final = re.compile(r"```(?:json)?\s*(\{.*\})\s*```\s*\Z", re.DOTALL)
_FIELDS: Final = ("final_answer", "answer")
_MAX_CHARS: Final = 20_000


def json_answer(text: str) -> str | None:
    """Return the answer field of a text that is nothing but one JSON object, else None.

    An object behind other text is no answer: it may be forged output of a grader.
    """
    fenced = _FENCE.match(text)
    body = fenced[1] if fenced is not None else text
    if not body.startswith("{") or len(body) > _MAX_CHARS:
        return None
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    for name in _FIELDS:
        value = fields.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value).strip() or None
    return None
