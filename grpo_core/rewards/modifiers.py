r"""Words around a number that change what it says: "minus 6", "less than 6", "6 squared"."""

import re
from typing import Final

from grpo_core.rewards.cues import NEGATION
from grpo_core.rewards.words import leading_number

_REACH: Final = 80
"""Characters on either side of a number that are looked at, so that time stays linear."""
_PARTS: Final = "half|halves|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
_OPERATIONS: Final = (
    rf"{_PARTS}|root|square|cube|power|factorial|opposite|negative|negation|reciprocal|inverse"
    r"|multiple|factor|divisor|log|logarithm|sine|cosine|tangent|fraction|percent|percentage"
    r"|complement|absolute\s+value"
)
_CHANGED_BEFORE: Final = re.compile(
    r"(?:[<>\u2264\u2265\u2260]=?|!="
    r"|\\(?:sqrt|[dt]?frac|leq?|geq?|lt|gt|neq?|pm|mp|log|ln|sin|cos|tan|binom|not)\b"
    r"|\b(?:than(?:\s+or\s+equal\s+to)?|at\s+(?:the\s+)?(?:least|most)|up\s+to|over|under|below"
    r"|above|beyond|exceed(?:s|ing)?|twice|double|triple|thrice|quadruple|half|root|squared|cubed"
    r"|factorial|plus|minus|times|modulo|mod|(?:divided|multiplied)\s+by|to\s+the\s+power\s+of"
    rf"|(?:{_OPERATIONS})s?\s+of(?:\s+(?:the|number))*|percent\s+of"
    r"|except(?:\s+for)?|besides|excluding|without|(?:any|every)\w*(?:\s+\w+)?\s+but|all\s+but))"
    r"[^\w<>:,=]*\Z",
    re.IGNORECASE,
)
_DENIED_BEFORE: Final = re.compile(
    rf"(?:{NEGATION.pattern})(?:\s+(?!but\b)\w+){{0,2}}\W*\Z", re.IGNORECASE
)
_SIGN: Final = re.compile(
    r"(?:\A\W*(?:menos|moins|meno|eksi|\u043c\u0438\u043d\u0443\u0441)"
    r"|(?:\A|[:=]|\b(?:is|are|was|be|has|have|had|of|to|at|equals?|a|the|exactly))\W*\bminus"
    r"|\bnegative)[^\w<>]*\Z",
    re.IGNORECASE,
)
_POSITIVE: Final = re.compile(r"\W*(?:plus|positive)\W*\Z", re.IGNORECASE)
_CHANGED_AFTER: Final = re.compile(
    r"[\s$*)]*(?:factorial|(?:squared|cubed)(?!\s+[A-Za-z])|divided|multiplied|plus|minus|modulo"
    r"|mod|choose|raised|to\s+the\s+power"
    r"|(?:\\?%|percent)\s+(?:less|more|fewer|of)"
    r"|(?:\s*[A-Za-z]+){0,2}?\s*\b(?:or\s+(?:more|less|fewer|greater|higher|lower|larger|smaller"
    r"|above|below)|at\s+(?:least|most)))\b",
    re.IGNORECASE,
)
_SIGN_OF_BOX: Final = re.compile(r"(?:[=$]|\bis)\s*-\$?\Z", re.IGNORECASE)
_VALUE: Final = r"[-+$*\\(]*\d[\d.,/]*[%$*\\)]*"
_CASES: Final = (
    re.compile(
        rf"(?P<first>{_VALUE}).*?\b(?:otherwise|else|if\s+not)\b[\s,:]*(?:it\s+is\s+|it's\s+)?"
        rf"(?P<second>{_VALUE})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<first>{_VALUE})(?:\s+[A-Za-z]+){{0,2}}?\s+(?P<case>for|if|when)\s.*?"
        rf"(?:\b(?:and|while|but)\b|[,;])\s*(?:it\s+is\s+)?(?P<second>{_VALUE})"
        r"(?:\s+[A-Za-z]+){0,2}?\s+(?P=case)\b",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<first>{_VALUE}).*?\b(?:unless|if|when)\b.*?\b(?:in\s+which\s+case|then)\b[\s,:]*"
        rf"(?:it\s+is\s+|it's\s+)?(?P<second>{_VALUE})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<first>{_VALUE})\s.*?(?:\band\b|[,;])\s*(?P<second>{_VALUE})"
        r"(?:\s+[A-Za-z]+){0,2}?\s+otherwise\b",
        re.IGNORECASE,
    ),
)
_CONTRAST: Final = re.compile(
    r"(?<=\S)\s*[,;\u2014-]*\s+(?:and\s+|but\s+)?(?:\w+ly\s+)?(?:not|rather\s+than|instead\s+of|as\s+opposed\s+to)\s+"
    r"(?:the\s+)?(?P<other>\S+)",
    re.IGNORECASE,
)


def stated(before: str, value: str, after: str) -> str | None:
    """Return the value with the sign its words give it, None when they make another one of it.

    Args:
        before: The phrase up to the value.
        value: The one number or formula of the phrase.
        after: The phrase behind it.

    >>> stated("minus ", "6", ""), stated("less than ", "6", ""), stated("", "6", " squared")
    ('-6', None, None)
    """
    before = before[-_REACH:]
    if is_changed_behind(after) or _DENIED_BEFORE.search(before):
        return None
    if _SIGN.search(before):
        return _negative(value)
    if _CHANGED_BEFORE.search(before) and not _POSITIVE.fullmatch(before):
        return None
    return value


def _negative(value: str) -> str | None:
    if value[:1] in "+-":
        return None
    return f"-{value}" if value.lstrip("\\$")[:1].isdigit() else f"-({value})"


def boxed(before: str, value: str) -> str:
    r"""Return what a box holds, with the sign that stands before the box: "minus \boxed{6}"."""
    if _SIGN.search(before) or _SIGN_OF_BOX.search(before):
        return _negative(value) or value
    return value


def is_changed_behind(after: str) -> bool:
    """Whether the words right behind a number operate on it or bound it."""
    return _CHANGED_AFTER.match(after[:_REACH]) is not None


def by_case(phrase: str) -> str | None:
    """Return "6 or 7" for a phrase that gives a value for each case, None for any other.

    >>> by_case("6 if x is odd, otherwise 7")
    '6 or 7'
    """
    for pattern in _CASES:
        if found := pattern.match(phrase):
            first, second = (found[name].strip("$*\\(),.") for name in ("first", "second"))
            return f"{first} or {second}"
    return None


def without_contrast(phrase: str) -> str:
    """Return what stands before a contrast with another number: "6, not 5" is 6."""
    found = _CONTRAST.search(phrase)
    if found is None or not holds_number(found["other"]):
        return phrase
    if re.search(r"\d", phrase[found.end() :]):
        return phrase
    head = phrase[: found.start()].rstrip(" *_`")
    return head if holds_number(head) else phrase


def holds_number(text: str) -> bool:
    """Whether a text has a digit or starts with a number word."""
    words = re.findall(r"[a-z]+", text.lower())
    return re.search(r"\d", text) is not None or leading_number(words) is not None
