r"""Answer text to tokens: numbers, words, LaTeX commands and operators.

Linear in the length of the text; nothing here evaluates anything.
"""

import re
from typing import Final, NamedTuple

from grpo_core.rewards.characters import GROUP_SPACE, to_latex


class UnreadableError(ValueError):
    """The text is not an answer this reader understands."""


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: `num`, `word` (letters), `text` (letters in text mode), `cmd` (without backslash)
            or `op` (one character).
        text: Its characters.
        space: What stood before it: nothing, " " or a grouping space.
    """

    kind: str
    text: str
    space: str


_SIZING: Final = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits"
    r"|mathstrut|boldsymbol|bm)(?![a-zA-Z])"
)
_NARROW: Final = re.compile(r"(?<!\\)\\[,;: ]|~|\\(?:thinspace|nobreakspace|hspace\{[^{}]*\})")
_ORDINAL: Final = r"(?:\\(?:text|textrm|mathrm|rm)\s*\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th))"
_REWRITES: Final = (
    (re.compile(rf"(?<=\d)(?:\^\s*\{{?\s*{_ORDINAL}\}}?|\s*{_ORDINAL}(?![a-zA-Z]))"), ""),
    (re.compile(r"\A(?:\s*\\\\)+|(?:\\\\\s*)+\Z"), ""),
    (re.compile(r"\\!|\\(?:phantom)\{[^{}]*\}|\\[()\[\]]"), ""),
    (re.compile(r"\\q?quad(?![a-zA-Z])"), " "),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-zA-Z]))"), r"\\degree "),
    (re.compile(r"\\leq(?:slant)?(?![a-zA-Z])"), r"\\le"),
    (re.compile(r"\\geq(?:slant)?(?![a-zA-Z])"), r"\\ge"),
    (re.compile(r"<="), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"\\neq(?![a-zA-Z])"), r"\\ne"),
    (re.compile(r"\\(?:lbrace)(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\(?:lvert|rvert|vert|mid)(?![a-zA-Z])"), "|"),
    (re.compile(r"\*\*"), "^"),
)
_TEXT_COMMAND: Final = re.compile(
    r"\\(?:text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mathtt|mbox|hbox"
    r"|emph|operatorname\*?|mathop|underline|bold)\s*\{"
)
_TOKEN: Final = re.compile(
    r"(?P<num>\d+(?:\.\d{3}){2,}(?![\d.])|\d+\.(?=\(\d|\s*\\(?:overline|bar|dot|widehat|d)\b)"
    r"|\d+(?:\.\d+)?|\.\d+)"
    r"|(?P<word>[^\W\d_]+)"
    r"|\\(?P<cmd>[a-zA-Z]+)"
    r"|(?P<op>\\[{}$%&#_|]|\\\\|\{,\}|.)",
    re.DOTALL,
)
_MAX_TEXT_DEPTH: Final = 8


_ELLIPSIS: Final = re.compile(
    r"(\d*\.\d{0,12}?)(\d{1,6}?)\2{2,}\s*(?:\.\.\.|\u2026|\\[lc]?dots(?![a-zA-Z]))"
)


def clean(text: str) -> str:
    """Return an answer without sizing, delimiters and markup that carry no meaning."""
    text = to_latex(text).strip().strip("`").strip()
    if text.startswith(("**", "__")) and len(text) > 4 and text.endswith(text[:2]):
        text = text[2:-2].strip()
    if "\\" in text or "~" in text:
        text = _NARROW.sub(GROUP_SPACE, _SIZING.sub("", text))
    if "..." in text or "\u2026" in text or "dots" in text:
        text = _ELLIPSIS.sub(r"\1\\overline{\2}", text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return _drop_math_dollars(text).strip()


def _drop_math_dollars(text: str) -> str:
    if "$" not in text:
        return text
    bare = re.sub(r"\\\$", "\x00", text)
    if bare.count("$") % 2 == 0:
        bare = bare.replace("$", " ")
    return bare.replace("\x00", r"\$")


def _close_of(text: str, start: int) -> int:
    depth, position = 1, start
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    raise UnreadableError("unbalanced braces")


def tokenize(text: str) -> list[Token]:
    r"""Return the tokens of a cleaned answer.

    Raises:
        UnreadableError: When the braces of a text command do not balance.
    """
    tokens: list[Token] = []
    _scan(text, tokens, depth=0, space="")
    return tokens


def _scan(text: str, tokens: list[Token], *, depth: int, space: str) -> str:
    if depth > _MAX_TEXT_DEPTH:
        raise UnreadableError("text commands nested too deep")
    position = 0
    while position < len(text):
        char = text[position]
        if char.isspace():
            space = GROUP_SPACE if char == GROUP_SPACE and space != " " else " "
            position += 1
            continue
        if char == "\\" and (command := _TEXT_COMMAND.match(text, position)):
            close = _close_of(text, command.end())
            space = _scan(text[command.end() : close], tokens, depth=depth + 1, space=space)
            position = close + 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableError(f"unreadable character {char!r}")
        tokens.append(_token(match, depth > 0, space))
        position, space = match.end(), ""
    return space


def _token(match: re.Match[str], in_text: bool, space: str) -> Token:
    kind = match.lastgroup or "op"
    text = match[kind]
    if kind == "word" and in_text and len(text) > 1:
        kind = "text"
    elif kind == "op" and text.startswith("\\") and len(text) == 2 and text[1] in "%&#_":
        text = text[1]
    return Token(kind, text, space)
