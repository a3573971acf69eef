"""Story skeletons: texts with slots, and the calculator steps that solve them.

A skeleton's slots are `{p.name}`, `{q.he}`, ... for people, `{t.many}` for the thing, and `{a}`,
`{b}`, ... for numbers. Its steps name numbers by their letter and earlier results by `x1`, ...:

    "{p.name} has {a} {t.many}. {p.He} buys {b} more. How many {t.many} does {p.name} have now?"
    steps: a+b

Every number of a step is a letter of the text or an earlier result, so that a problem can be
re-solved for other numbers.
"""

import random
from dataclasses import dataclass

from grpo_core.tiny.words import DOLLAR, PAGE, Thing


@dataclass(frozen=True, slots=True)
class Step:
    """One calculator line, symbolically."""

    left: str
    op: str
    right: str


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A story without its people, thing and numbers.

    `thing` is None where any thing will do and is named in the answer.
    """

    text: str
    steps: tuple[Step, ...]
    thing: Thing | None = None


def parse_steps(text: str) -> tuple[Step, ...]:
    """The steps written as `"a*b c-x1"`.

    >>> parse_steps("a*b c-x1")[1]
    Step(left='c', op='-', right='x1')
    """
    steps = []
    for line in text.split():
        op = next(char for char in line if char in "+-*/")
        left, right = line.split(op)
        steps.append(Step(left, op, right))
    return tuple(steps)


def _fixed(text: str, steps: str, thing: Thing | None = None) -> Skeleton:
    return Skeleton(text, parse_steps(steps), thing)


_SHOP = "One {t.one} costs {a} dollars. {p.name} buys {b} {t.many}"
_WORK = (
    "{p.name} earns {a} dollars an hour. {p.He} works {b} hours on Monday and {c} hours on Friday."
)
_READ = "A book has {a} pages. {p.name} reads {b} pages a day for {c} days."
_POOL = "{p.name} has {a} {t.many} and {q.name} has {b} {t.many}. They put them together"
_BAGS = "{p.name} buys {a} bags with {b} {t.many} each and {c} boxes with {d} {t.many} each."

FIXED: tuple[Skeleton, ...] = (
    _fixed(_SHOP + ". How many dollars does {p.he} pay?", "a*b", DOLLAR),
    _fixed(_POOL + ". How many {t.many} do they have now?", "a+b"),
    _fixed(
        "{p.name} has {a} {t.many}. {q.name} has {b} {t.many}. "
        "How many more {t.many} does {p.name} have?",
        "a-b",
    ),
    _fixed(
        _SHOP + " and pays with {c} dollars. How many dollars does {p.he} get back?",
        "a*b c-x1",
        DOLLAR,
    ),
    _fixed(_WORK + " How many dollars does {p.he} earn?", "b+c x1*a", DOLLAR),
    _fixed(_READ + " How many pages are left?", "b*c a-x1", PAGE),
    _fixed(
        _POOL + " and share them equally among {c} friends. "
        "How many {t.many} does each friend get?",
        "a+b x1/c",
    ),
    _fixed(_BAGS + " How many {t.many} does {p.he} have now?", "a*b c*d x1+x2"),
    _fixed(
        _WORK + " {p.He} pays {d} dollars for a book. How many dollars does {p.he} have left?",
        "b+c x1*a x2-d",
        DOLLAR,
    ),
    _fixed(
        _BAGS + " {p.He} sells {e}. How many {t.many} does {p.he} have left?",
        "a*b c*d x1+x2 x3-e",
    ),
    _fixed(
        _WORK + " {p.He} pays {d} dollars for a book and shares the rest equally among {e} "
        "friends. How many dollars does each friend get?",
        "b+c x1*a x2-d x3/e",
        DOLLAR,
    ),
)
"""Stories told one way only; their calculator lines do not follow the order of the text."""

_OPENINGS: tuple[tuple[str, str], ...] = (
    ("{p.name} has {a} {t.many}.", ""),
    ("{p.name} has {a} red {t.many} and {b} blue {t.many}.", "+"),
    ("{p.name} has {a} boxes with {b} {t.many} each.", "*"),
    ("{p.name} had {a} {t.many} and lost {b}.", "-"),
)

_EVENTS: tuple[tuple[str, str], ...] = (
    ("{p.He} buys {n} more.", "+"),
    ("{p.He} finds {n} more.", "+"),
    ("{q.name} gives {p.him} {n} more.", "+"),
    ("{p.He} sells {n}.", "-"),
    ("{p.He} loses {n}.", "-"),
    ("{p.He} gives {n} to {q.name}.", "-"),
    ("{q.name} has {n} times as many.", "* then q"),
    ("{p.He} puts them equally into {n} boxes. {q.name} takes one box.", "/ then q"),
)

_SHARING = "{p.He} shares them equally among {n} friends. How many {t.many} does each friend get?"
_ASKING = "How many {t.many} does {p.name} have now?"
_SHARING_SHARE = 0.2


def _retold(text: str, hero: str, other: str, letter: str) -> str:
    """The text with the people `p` and `q` replaced by who they are by now."""
    swapped = (
        text.replace("{p.", "{hero.").replace("{q.", "{other.").replace("{n}", f"{{{letter}}}")
    )
    return swapped.replace("{hero.", f"{{{hero}.").replace("{other.", f"{{{other}.")


def draw_chain(rng: random.Random, length: int) -> Skeleton:
    """A story of `length` steps in which each step changes the last result."""
    text, op = rng.choice(_OPENINGS)
    sentences, steps = [text], [Step("a", op, "b")] if op else []
    letters = iter("bcdef"[len(steps) :])
    hero, other = "p", "q"
    while len(steps) < length:
        last = f"x{len(steps)}" if steps else "a"
        letter = next(letters)
        if len(steps) == length - 1 and rng.random() < _SHARING_SHARE:
            steps.append(Step(last, "/", letter))
            sentences.append(_retold(_SHARING, hero, other, letter))
            return Skeleton(" ".join(sentences), tuple(steps))
        text, effect = rng.choice(_EVENTS)
        steps.append(Step(last, effect[0], letter))
        sentences.append(_retold(text, hero, other, letter))
        if effect.endswith("q"):
            hero, other = other, hero
    sentences.append(_retold(_ASKING, hero, other, ""))
    return Skeleton(" ".join(sentences), tuple(steps))


def draw_skeleton(rng: random.Random, length: int, *, fixed_share: float = 0.35) -> Skeleton:
    """A story of `length` steps: a fixed one with probability `fixed_share`, else a chain."""
    if rng.random() < fixed_share:
        return rng.choice([story for story in FIXED if len(story.steps) == length])
    return draw_chain(rng, length)


def all_texts() -> tuple[str, ...]:
    """Every text that a skeleton is made of."""
    told = (*(text for text, _ in _OPENINGS), *(text for text, _ in _EVENTS), _SHARING, _ASKING)
    return (*(story.text for story in FIXED), *told)
