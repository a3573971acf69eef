"""What the warm start is fed: batches of demonstrations and batches of bare arithmetic.

Demonstrations are of problems that are in none of the shipped splits, and every batch is drawn
anew. Drills are calculator lines without a story, all correct; a model of this size needs many more
sums than stories.
"""

import random
from collections.abc import Iterator

import torch
from transformers import PreTrainedTokenizerFast

from grpo_core.tiny.demonstrations import Carelessness, Demonstration, demonstrate
from grpo_core.tiny.problems import draw_problem
from grpo_core.tiny.splits import draw_splits, draw_unseen

IGNORED = -100
POOL_BATCHES = 8
DRILL_LINES = 10

Batch = tuple[torch.Tensor, torch.Tensor]


def draw_demonstrations(
    carelessness: Carelessness, seed: int, *, data_seed: int = 0
) -> Iterator[Demonstration]:
    """Demonstrations without end.

    None has the story skeleton and the numbers of a problem that `data_seed` put into a split.
    """
    shipped = {problem.signature for split in draw_splits(data_seed).values() for problem in split}
    rng = random.Random(f"{seed}/demonstrations")
    while True:
        yield demonstrate(rng, draw_unseen(rng, shipped), carelessness)


def demonstration_batches(
    tokenizer: PreTrainedTokenizerFast, demonstrations: Iterator[Demonstration], size: int
) -> Iterator[Batch]:
    """Batches without end, each of demonstrations of about the same length.

    Lengths are sorted within a pool of `POOL_BATCHES` batches, which halves the padding.
    """
    rng = random.Random("batches")
    while True:
        pool = [next(demonstrations) for _ in range(POOL_BATCHES * size)]
        pool.sort(key=lambda item: len(item.prompt.split()) + len(item.completion))
        starts = list(range(0, len(pool), size))
        rng.shuffle(starts)
        for start in starts:
            yield to_batch(tokenizer, pool[start : start + size])


def drill_batches(tokenizer: PreTrainedTokenizerFast, seed: int, size: int) -> Iterator[Batch]:
    """Batches without end of `DRILL_LINES` calculator lines a row: `<<3+4=7>><<21/7=3>>...`.

    The lines are those that problems need. Only results carry a label.
    """
    rng = random.Random(f"{seed}/drills")
    while True:
        lines: list[str] = []
        while len(lines) < size * DRILL_LINES:
            lines += (str(line).partition(">>")[0] + ">>" for line in draw_problem(rng).lines)
        rng.shuffle(lines)
        starts = range(0, size * DRILL_LINES, DRILL_LINES)
        rows = tokenizer(["".join(lines[start : start + DRILL_LINES]) for start in starts])
        ids = _padded(rows.input_ids, tokenizer.pad_token_id)
        yield ids, torch.where(_is_result(ids, tokenizer), ids, IGNORED)


def to_batch(tokenizer: PreTrainedTokenizerFast, demonstrations: list[Demonstration]) -> Batch:
    """Token ids and labels, both int64 `[B, P + T]`, padded on the right.

    Only completion tokens and the end token carry a label.
    """
    prompts = tokenizer([item.prompt for item in demonstrations]).input_ids
    texts = [item.completion for item in demonstrations]
    completions = [
        [*completion, tokenizer.eos_token_id]
        for completion in tokenizer(texts, add_special_tokens=False).input_ids
    ]
    pairs = list(zip(prompts, completions, strict=True))
    ids = _padded([prompt + completion for prompt, completion in pairs], tokenizer.pad_token_id)
    labels = [[IGNORED] * len(prompt) + completion for prompt, completion in pairs]
    return ids, _padded(labels, IGNORED)


def _padded(rows: list[list[int]], filler: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [filler] * (width - len(row)) for row in rows])


def _is_result(ids: torch.Tensor, tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Whether a token stands after `=` and not after `>>`, bool `[B, S]`."""
    equals, end = tokenizer.convert_tokens_to_ids(["=", ">>"])
    opened = (ids == equals).cumsum(1) - (ids == equals).int()
    closed = (ids == end).cumsum(1) - (ids == end).int()
    inside: torch.Tensor = opened > closed
    return inside
