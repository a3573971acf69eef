"""What a reader of a completion sees: everything outside the reasoning tags."""

import re
from functools import cache

from grpo_core.rewards.characters import to_plain
from grpo_core.rewards.options import VerifierOptions


@cache
def _tag_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(tag) for tag in tags)
    return re.compile(rf"<(/?)\|?(?:{names})\|?>", re.IGNORECASE)


def visible_text(completion: str, options: VerifierOptions) -> str:
    """Return the gradable part of a completion, in plain characters; see `without_reasoning`."""
    return without_reasoning(to_plain(completion), options)


def without_reasoning(text: str, options: VerifierOptions) -> str:
    """Return a text without what stands inside reasoning tags, as it is written.

    A closed reasoning block is left out, and so is everything from an unclosed one to the end. A
    closing tag without an opening one ends reasoning that the prompt template began.
    """
    if "<" not in text or not options.reasoning_tags:
        return text[-options.max_completion_chars :]
    kept: list[str] = []
    position, depth = 0, 0
    for tag in _tag_pattern(options.reasoning_tags).finditer(text):
        if tag[1]:
            if depth == 0:
                kept.clear()
            depth = max(depth - 1, 0)
        else:
            if depth == 0:
                kept.append(text[position : tag.start()])
            depth += 1
        position = tag.end()
    if depth == 0:
        kept.append(text[position:])
    return " ".join(kept)[-options.max_completion_chars :]
