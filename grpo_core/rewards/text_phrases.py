"""The words or the choice inside a phrase, for golds that are text or a letter."""

import re
from typing import Final

from grpo_core.rewards.cues import CLAUSE_END

_NOISE_WORDS: Final = (
    "correct right wrong below above clear obvious follows unknown incorrect valid unique"
)
NOISE: Final = frozenset(_NOISE_WORDS.split())
_DOLLARS: Final = re.compile(r"\$+([^$\n]+)\$+\Z")
_LETTER: Final = (
    r"(?:option|choice|answer)?\s*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{\s*)?"
    r"(?:[(\[]\s*[A-Ja-j]\s*[)\]]|[A-J](?![\w'])|[a-j](?=\s*(?:[).:]|\Z)))"
)
_CHOICE: Final = re.compile(rf"[\s*\"'$_`]*(?P<letter>{_LETTER})", re.IGNORECASE)
_STRICT: Final = re.compile(rf"[\s*\"'$_`]*(?P<letter>{_LETTER})")
_ANOTHER: Final = re.compile(r"[\s*}]*(?:,|or|and|/)[\s*]*[(\[]?[A-J][)\]]?(?![\w'])")
_CHOSEN: Final = re.compile(
    r"\b(?:choose|select|pick|go\s+with|is|option|choice)\s+(?:option\s+|choice\s+)?"
    r"(?P<letter>[*(\[]*[A-J][)\]*]*)[\s.!]*\Z"
)


def text_value(phrase: str) -> str | None:
    """Return the words a phrase states, up to its first clause; None for filler."""
    math = _DOLLARS.match(phrase)
    phrase = math[1] if math is not None else phrase
    clause = CLAUSE_END.search(phrase)
    value = phrase[: clause.start()] if clause is not None and clause.start() > 0 else phrase
    return None if not value or value.lower() in NOISE else value.strip("*\"'. ")


def choice_value(phrase: str) -> str | None:
    """Return the choice a phrase starts with, the whole phrase when it names several.

    A capital letter on its own or any letter in brackets or before `)`; the article "a" is none.
    """
    match = _STRICT.match(phrase) or _CHOICE.fullmatch(phrase.rstrip(" .*$`}"))
    if match is None:
        return None
    if _ANOTHER.match(phrase, match.end()):
        return phrase
    return match["letter"].strip()


def chosen_letter(sentence: str) -> str | None:
    """Return the choice that an unmarked sentence ends on: "I choose B."."""
    match = _CHOSEN.search(sentence)
    return match["letter"].strip("*") if match is not None else None
