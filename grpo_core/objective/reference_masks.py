"""The definition of the configured masks, token by token, written with loops.

Nothing here is shared with `masks` and `spans`: it is what those are checked against.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise

from grpo_core.objective.config import MaskConfig


@dataclass(frozen=True)
class Completion:
    """One rollout as the masks see it.

    Attributes:
        token_ids: [T].
        pieces: Text of each token, [T].
        is_truncated: Ended by the budget.
        is_live: Its group was not dropped and its reward is known.
    """

    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    is_truncated: bool
    is_live: bool


def reference_mask(completion: Completion, config: MaskConfig) -> list[bool]:
    """Returns whether each token carries loss, [T]."""
    is_dropped = completion.is_truncated and config.truncated == "drop"
    if is_dropped or not completion.is_live:
        return [False] * len(completion.token_ids)
    hidden = _inside_texts(completion.pieces, config.template_spans)
    if config.repeat_ngram_tokens is not None:
        size, free = config.repeat_ngram_tokens, config.repeat_free_count
        hidden |= _repeated(completion.token_ids, size, free)
    return [position not in hidden for position in range(len(completion.token_ids))]


def _repeated(ids: tuple[int, ...], size: int, free: int) -> set[int]:
    """Positions of each n-gram's occurrences after its first `free`, read without overlap."""
    marked: set[int] = set()
    for ngram in {ids[start : start + size] for start in range(len(ids) - size + 1)}:
        start = count = 0
        while start + size <= len(ids):
            if ids[start : start + size] != ngram:
                start += 1
                continue
            count += 1
            if count > free:
                marked.update(range(start, start + size))
            start += size
    return marked


def _inside_texts(pieces: tuple[str, ...], texts: tuple[str, ...]) -> set[int]:
    """Positions of tokens that lie wholly inside an occurrence of a text."""
    whole = "".join(pieces)
    edges = list(accumulate(map(len, pieces), initial=0))
    marked: set[int] = set()
    for text in filter(None, texts):
        for start in range(len(whole)):
            if not whole.startswith(text, start):
                continue
            for position, (first, last) in enumerate(pairwise(edges)):
                if start <= first and last <= start + len(text):
                    marked.add(position)
    return marked
