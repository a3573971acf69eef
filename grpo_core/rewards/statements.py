r"""Every place where a completion states an answer, with how strongly it commits to it.

| rank | statement |
|---|---|
| 3 | `#### 42`, `<answer>42</answer>`, "Final answer: 42" |
| 2 | "The answer is 42", "Answer: 42", a box in such a sentence |
| 1 | a box in a concluding sentence, "Result: 42" |
| 0 | any other box |
"""

import re
from bisect import bisect_left
from itertools import zip_longest
from typing import Final, NamedTuple

from grpo_core.rewards.boxes import Box, find_boxes
from grpo_core.rewards.cues import (
    CONCLUSION,
    FOREIGN_HINTS,
    FOREIGN_LABEL,
    HEADING,
    LABEL,
    NEGATION,
    REVERSED,
    SENTENCE_END,
    SUPPOSED,
)
from grpo_core.rewards.modifiers import boxed, stated
from grpo_core.rewards.phrases import Wants, phrase_at, value_of, without_label

MAX_STATEMENTS: Final = 200
_LABEL_WORDS: Final = ("answer", "ans", "result", "solution", "option", "choice")
_WEAK_WORDS: Final = frozenset({"result", "solution", "option", "choice"})
_TAG: Final = re.compile(r"<(/?)(?:final[_-]?)?answer>", re.IGNORECASE)
_HASH: Final = re.compile(r"(?<![^\s.])####(?!#)[ \t]*")
_RUN: Final = re.compile("#+")
_VALUE_START: Final = re.compile(r"[\s*$({\[\\+-]*(?:[\d.$\u20ac\u00a3\\]|\Z)")
_MARKDOWN: Final = re.compile(r"[\s#*>_\d.)-]*(?:the\s+)?\Z", re.IGNORECASE)
_DENIED_BEFORE: Final = re.compile(
    r"\b(?:not|isn't|cannot\s+be|can't\s+be|never)\s*[\s$*(\\\[]*\Z", re.IGNORECASE
)
_DENIED_AFTER: Final = re.compile(
    r"[\s$*)\\\]]*(?:(?:is|was|would\s+be)\s+(?:\w+\s+)?(?:not|wrong|incorrect)"
    r"|(?:cannot|can't)\s+be\s+(?:right|correct)|isn't\s+(?:right|correct))",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """One stated answer.

    Attributes:
        start: Where it begins, its label included.
        end: Where its value ends.
        rank: How strongly it commits, 0 to 3.
        value: The stated value; None when it was cut off by the end of the text.
    """

    start: int
    end: int
    rank: int
    value: str | None


def find_statements(
    text: str, *, wants: Wants = "math", accept_unterminated: bool = False
) -> list[Statement]:
    """Return the statements of a text in the order of their values, at most the last 200.

    Args:
        text: Visible text.
        wants: What the gold is.
        accept_unterminated: Whether a box or tag that the text ends in has a value.
    """
    return _Scanner(text, wants, accept_unterminated).scan()


class _Scanner:
    def __init__(self, text: str, wants: Wants, accept_unterminated: bool) -> None:
        self._text = text
        self._wants = wants
        self._accept_unterminated = accept_unterminated
        self._boxes = find_boxes(text)[-MAX_STATEMENTS:]
        self._box_starts = [box.start for box in self._boxes]

    def scan(self) -> list[Statement]:
        lower = self._text.lower()
        found: list[Statement] = []
        if "answer>" in lower:
            found += self._tagged()
        if "####" in lower:
            found += self._hashed()
        if any(word in lower for word in _LABEL_WORDS):
            found += self._labelled()
            found += self._reversed()
        if not lower.isascii() or any(hint in lower for hint in FOREIGN_HINTS):
            found += self._foreign()
        found = _outermost([s for s in found if not self._is_inside_box(s.start)])
        if self._boxes:
            found += self._boxed(found)
        return sorted(found, key=lambda statement: statement.end)[-MAX_STATEMENTS:]

    def _stated(
        self,
        start: int,
        label_end: int,
        rank: int,
        *,
        wants: Wants,
        negated: bool = False,
        stop: int | None = None,
    ) -> Statement | None:
        """Return what stands behind a label: the first box of the phrase, else its value."""
        phrase, end = phrase_at(self._text, label_end, stop)
        index = bisect_left(self._box_starts, label_end)
        if not negated and index < len(self._boxes) and self._boxes[index].start <= end:
            if not self._boxes[index].content.strip():
                return None
            box = self._boxes[index]
            return Statement(start, box.end, rank, self._labelled_box(label_end, box))
        value = value_of(f"not {phrase}" if negated else phrase, wants=wants)
        return Statement(start, end, rank, value) if value is not None else None

    def _is_inside_box(self, position: int) -> bool:
        index = bisect_left(self._box_starts, position) - 1
        return index >= 0 and position < self._boxes[index].end

    def _content(self, box: Box) -> str | None:
        if not box.closed and not self._accept_unterminated:
            return None
        return boxed(self._sentence_before(box.start, 40), without_label(box.content))

    def _labelled_box(self, label_end: int, box: Box) -> str | None:
        """Return what a box behind a label says, with the words between the two that change it."""
        inner = without_label(box.content)
        between = self._text[label_end : box.start]
        if "\n" in between or not box.closed or stated(between, inner, "") is not None:
            return self._content(box)
        return f"{between.strip()} {inner}"

    def _tagged(self) -> list[Statement]:
        found: list[Statement] = []
        opened: re.Match[str] | None = None
        for tag in list(_TAG.finditer(self._text))[-2 * MAX_STATEMENTS :]:
            if not tag[1]:
                opened = tag
            elif opened is not None:
                content = self._text[opened.end() : tag.start()].strip()
                if content:
                    stated = self._tag_value(content)
                    found.append(Statement(opened.start(), tag.end(), 3, stated))
                opened = None
        if opened is not None and (content := self._text[opened.end() :].strip()):
            value = self._tag_value(content) if self._accept_unterminated else None
            found.append(Statement(opened.start(), len(self._text), 3, value))
        return found[-MAX_STATEMENTS:]

    def _tag_value(self, content: str) -> str:
        short = len(content) < 20_000 and "answer>" not in content.lower()
        inner = find_statements(content, wants=self._wants) if short else []
        if len({statement.value for statement in inner}) == 1 and inner[-1].value is not None:
            return inner[-1].value
        return value_of(content.splitlines()[-1], wants=self._wants) or content

    def _hashed(self) -> list[Statement]:
        found: list[Statement] = []
        markers = self._markers()
        for marker, following in zip_longest(markers, markers[1:]):
            stop = following.start() if following is not None else None
            phrase, end = phrase_at(self._text, marker.end(), stop)
            bare = phrase.strip(" *_:")
            if HEADING.match(bare) or not bare or phrase.rstrip(" *_").endswith(":"):
                continue
            numeric = self._wants == "text" and _VALUE_START.match(bare)
            stated = self._stated(
                marker.start(),
                marker.end(),
                3,
                wants="math" if numeric else self._wants,
                stop=stop,
            )
            found.append(stated or Statement(marker.start(), end, 3, bare))
        return found

    def _markers(self) -> list[re.Match[str]]:
        found: list[re.Match[str]] = []
        position = self._text.find("####")
        while position >= 0:
            marker = _HASH.match(self._text, position)
            if marker is not None:
                found.append(marker)
            run = _RUN.match(self._text, position)
            position = self._text.find("####", run.end() if run is not None else position + 4)
        return found[-MAX_STATEMENTS:]

    def _labelled(self) -> list[Statement]:
        found: list[Statement] = []
        labels = list(LABEL.finditer(self._text))[-MAX_STATEMENTS:]
        stops = [label.start() for label in labels[1:]]
        for label, stop in zip_longest(labels, stops):
            weak = label["word"].lower() in _WEAK_WORDS and not label["final"]
            if self._is_idle(label, weak):
                continue
            final = label["final"] is not None and "final" in label["final"].lower()
            stated = self._stated(
                label.start(),
                label.end(),
                1 if weak else 3 if final else 2,
                wants="math" if weak and self._wants == "text" else self._wants,
                negated=NEGATION.search(label["gap"] + label["link"]) is not None,
                stop=stop,
            )
            if stated is not None:
                found.append(stated)
        return found

    def _reversed(self) -> list[Statement]:
        """Return statements of the form "42 is the answer"."""
        found: list[Statement] = []
        for match in list(REVERSED.finditer(self._text))[-MAX_STATEMENTS:]:
            before = self._sentence_before(match.start(), 120)
            value = value_of(before, wants=self._wants) if re.search(r"\w", before) else None
            if value is not None and not match["not"] and not SUPPOSED.search(before):
                start = match.start() - len(before)
                found.append(Statement(start, match.end(), 2, value))
        return found

    def _is_idle(self, label: re.Match[str], weak: bool) -> bool:
        """Whether a label states nothing: supposed, a line break in prose, a heading."""
        if SUPPOSED.search(self._sentence_before(label.start(), 80)):
            return True
        if "\n" in label["link"] and not self._opens_line(label):
            return True
        _, end = phrase_at(self._text, label.end())
        return weak and (end - label.end() > 60 or "\n" in self._text[label.end() : end])

    def _opens_line(self, label: re.Match[str]) -> bool:
        line = self._text[self._text.rfind("\n", 0, label.start()) + 1 : label.start()]
        return _MARKDOWN.match(line) is not None and not label["gap"].strip()

    def _foreign(self) -> list[Statement]:
        labels = list(FOREIGN_LABEL.finditer(self._text))[-MAX_STATEMENTS:]
        stated = [self._stated(m.start(), m.end(), 2, wants=self._wants) for m in labels]
        return [statement for statement in stated if statement is not None]

    def _boxed(self, claimed: list[Statement]) -> list[Statement]:
        """Return the boxes that no label or tag claims."""
        found: list[Statement] = []
        for box in self._boxes:
            if any(s.start <= box.start < s.end for s in claimed) or box.content.strip() == "":
                continue
            if not self._is_denied(box):
                rank = 1 if CONCLUSION.search(self._sentence_before(box.start, 200)) else 0
                found.append(Statement(box.start, box.end, rank, self._content(box)))
        return found

    def _sentence_before(self, start: int, reach: int) -> str:
        before = self._text[max(0, start - reach) : start]
        ends = list(SENTENCE_END.finditer(before))
        return before[ends[-1].end() :] if ends else before

    def _is_denied(self, box: Box) -> bool:
        """Whether the sentence says that this box is not the answer."""
        before = self._sentence_before(box.start, 60)
        after = self._text[box.end : box.end + 60]
        return bool(_DENIED_BEFORE.search(before) or _DENIED_AFTER.match(after))


def _outermost(found: list[Statement]) -> list[Statement]:
    """Merge a label inside a longer statement into it: `#### The answer is 18` is one."""
    kept: list[Statement] = []
    for statement in sorted(found, key=lambda s: (s.start, -s.end)):
        if not kept or statement.start >= kept[-1].end:
            kept.append(statement)
            continue
        outer = kept[-1]
        if statement.value == outer.value or statement.end <= outer.end:
            kept[-1] = outer._replace(rank=max(statement.rank, outer.rank))
        else:
            kept.append(statement)
    return kept
