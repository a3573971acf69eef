"""Spans inside completions: repetitions, fixed texts, ends of reasoning steps.

Shapes: N rollouts, T completion tokens (padded).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from grpo_core.errors import DataContractError


def repeated_ngram_mask(
    token_ids: Tensor, generated: Tensor, *, ngram_tokens: int, free_count: int
) -> Tensor:
    """Returns True on tokens of n-grams that occurred too often before, bool [N, T].

    Occurrences of one n-gram are counted left to right without overlap; every token of an
    occurrence after the first `free_count` is marked.

    Args:
        token_ids: Completions, int [N, T].
        generated: Sampled tokens, contiguous in each row, bool [N, T].
        ngram_tokens: n.
        free_count: Occurrences that stay unmarked.
    """
    marked = torch.zeros(generated.shape, dtype=torch.bool)
    for row, (start, stop) in enumerate(_extents(generated)):
        ids = token_ids[row, start:stop].tolist()
        for first in _late_occurrences(ids, ngram_tokens, free_count):
            marked[row, start + first : start + first + ngram_tokens] = True
    return marked.to(generated.device)


def template_span_mask(
    pieces: Sequence[Sequence[str]], generated: Tensor, spans: Iterable[str]
) -> Tensor:
    """Returns True on tokens that lie wholly inside a given text, bool [N, T].

    Texts are looked up in the joined pieces, so that a tokenizer's merges at the edge of a text
    do not hide it; a token that reaches over the edge is not marked.

    Args:
        pieces: Text of each sampled token of each row, without padding.
        generated: Sampled tokens, contiguous in each row, bool [N, T].
        spans: Texts; empty ones are ignored.
    """
    texts = [span for span in spans if span]
    marked = torch.zeros(generated.shape, dtype=torch.bool)
    for row, (start, _) in enumerate(_piece_extents(pieces, generated)):
        edges = _edges(pieces[row])
        for low, high in _occurrences("".join(pieces[row]), texts):
            first, beyond = bisect_left(edges, low), bisect_right(edges, high) - 1
            marked[row, start + first : start + max(first, beyond)] = True
    return marked.to(generated.device)


def step_end_mask(pieces: Sequence[Sequence[str]], generated: Tensor) -> Tensor:
    r"""Returns True on tokens that end a line of reasoning, bool [N, T].

    A token ends a line when its text holds a line break; the last sampled token ends one too.

    Args:
        pieces: Text of each sampled token of each row, without padding.
        generated: Sampled tokens, contiguous in each row, bool [N, T].
    """
    marked = torch.zeros(generated.shape, dtype=torch.bool)
    for row, (start, stop) in enumerate(_piece_extents(pieces, generated)):
        for index, piece in enumerate(pieces[row]):
            marked[row, start + index] = "\n" in piece or start + index == stop - 1
    return marked.to(generated.device)


def _extents(generated: Tensor) -> list[tuple[int, int]]:
    """Returns the first position and the one after the last of each row's sampled tokens."""
    extents = []
    for row in generated.cpu():
        positions = row.nonzero().flatten()
        bounds = (int(positions[0]), int(positions[-1]) + 1) if positions.numel() else (0, 0)
        if bounds[1] - bounds[0] != positions.numel():
            raise DataContractError("generated: expected one contiguous span of tokens a row")
        extents.append(bounds)
    return extents


def _piece_extents(pieces: Sequence[Sequence[str]], generated: Tensor) -> list[tuple[int, int]]:
    extents = _extents(generated)
    lengths = [stop - start for start, stop in extents]
    if lengths != [len(row) for row in pieces]:
        raise DataContractError("pieces: expected one text for each sampled token of each row")
    return extents


def _late_occurrences(ids: Sequence[int], size: int, free_count: int) -> list[int]:
    """Returns starts of n-gram occurrences beyond the first `free_count`, without overlap."""
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    late = []
    for start, ngram in enumerate(zip(*(ids[shift:] for shift in range(size)), strict=False)):
        count, free_from = seen.get(ngram, (0, 0))
        if start < free_from:
            continue
        seen[ngram] = (count + 1, start + size)
        if count >= free_count:
            late.append(start)
    return late


def _edges(pieces: Sequence[str]) -> list[int]:
    edges = [0]
    for piece in pieces:
        edges.append(edges[-1] + len(piece))
    return edges


def _occurrences(text: str, spans: Iterable[str]) -> list[tuple[int, int]]:
    return [
        (match.start(), match.start() + len(span))
        for span in spans
        for match in re.finditer(f"(?={re.escape(span)})", text)
    ]
