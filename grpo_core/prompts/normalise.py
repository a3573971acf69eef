"""When two problems are the same problem, and when two golds are the same gold."""

import hashlib
import re
import unicodedata
from fractions import Fraction

NORMALISATION_VERSION = 1
"""Part of every `prompt_id`; a change of the rules below increments it."""

_PLAIN_NUMBER = re.compile(r"[+-]?\$?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?")


def normalise_problem(text: str) -> str:
    """Return `text` in Unicode NFC with every run of whitespace as one space, ends stripped."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def problem_id(text: str) -> str:
    """Return the `prompt_id`: 16 hex digits of sha256 over version and normalised problem.

    >>> problem_id("What is 2 + 2?") == problem_id("  What  is 2 + 2? ")
    True
    """
    payload = f"{NORMALISATION_VERSION}\n{normalise_problem(text)}"
    return hashlib.sha256(payload.encode("utf-8")).hexdigest()[:16]


def hash_fraction(purpose: str, prompt_id: str) -> float:
    """Return a number in [0, 1) that depends on purpose and problem alone."""
    digest = hashlib.sha256(f"{purpose}\n{prompt_id}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def gold_value(gold: str) -> Fraction | str:
    """Return what makes golds of one problem agree: the value of a plain number, else its text.

    >>> gold_value("1,200") == gold_value("$1200.0")
    True
    """
    text = normalise_problem(gold)
    if _PLAIN_NUMBER.fullmatch(text):
        return Fraction(text.replace(",", "").replace("$", ""))
    return text
