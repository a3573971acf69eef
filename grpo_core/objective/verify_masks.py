"""Configured masks against their definition, on generated completions.

Mixed lengths, dropped groups, truncated rows, n-grams that come back too often, and the configured
texts, cut into tokens at random places of which some reach over the edge of a text.
"""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import torch

from grpo_core.objective.config import MaskConfig
from grpo_core.objective.masks import length_mask, loss_masks
from grpo_core.objective.reference_masks import Completion, reference_mask

_ROWS = 12
_VOCABULARY = 5
_LETTERS = ("a", " b", "\n", "cd", "")


@dataclass(frozen=True)
class MaskComparison:
    """Tokens that were compared.

    Attributes:
        tokens: Sampled tokens.
        masked: Those that carry no loss by definition.
        wrong: Those that the trainer's masks treat otherwise, padding that is live included.
    """

    tokens: int
    masked: int
    wrong: int


def compare_masks(config: MaskConfig, *, seeds: int) -> MaskComparison:
    """Returns how many tokens the configured masks treat otherwise than their definition.

    Args:
        config: Mask section.
        seeds: Generated batches.
    """
    tokens = masked = wrong = 0
    for seed in range(seeds):
        rows = generate_completions(config, seed)
        lengths = torch.tensor([len(row.token_ids) for row in rows])
        width = int(lengths.max())
        ids = torch.tensor([[*row.token_ids, *[0] * (width - len(row.token_ids))] for row in rows])
        actual = loss_masks(
            length_mask(lengths, width),
            config,
            truncated=torch.tensor([row.is_truncated for row in rows]),
            live_rows=torch.tensor([row.is_live for row in rows]),
            token_ids=ids,
            pieces=[row.pieces for row in rows],
        ).completion_mask
        expected = torch.zeros_like(actual)
        for n, row in enumerate(rows):
            expected[n, : len(row.token_ids)] = torch.tensor(reference_mask(row, config))
        tokens += int(lengths.sum())
        masked += int(lengths.sum() - expected.sum())
        wrong += int((actual != expected).sum())
    return MaskComparison(tokens, masked, wrong)


def generate_completions(config: MaskConfig, seed: int) -> list[Completion]:
    """Returns completions on which every configured mask acts.

    Args:
        config: Mask section.
        seed: Of the generator.
    """
    draw = Random(seed)
    rows = []
    for n in range(_ROWS):
        tokens = _filler(draw, draw.randint(1, 9))
        if config.repeat_ngram_tokens is not None:
            block = _filler(draw, config.repeat_ngram_tokens)
            for _ in range(config.repeat_free_count + 2):
                tokens += block + _filler(draw, draw.randint(0, 2))
        for text in config.template_spans:
            tokens += _cut(draw, text) + _filler(draw, draw.randint(0, 3))
        rows.append(
            Completion(
                token_ids=tuple(token for token, _ in tokens),
                pieces=tuple(piece for _, piece in tokens),
                is_truncated=n % 4 == 1,
                is_live=n % 6 != 2,
            )
        )
    return rows


def _filler(draw: Random, count: int) -> list[tuple[int, str]]:
    return [(token, _LETTERS[token]) for token in draw.choices(range(_VOCABULARY), k=count)]


def _cut(draw: Random, text: str) -> list[tuple[int, str]]:
    """The text as tokens; the outer ones take a neighbouring letter along every other time."""
    edges = sorted({0, len(text), *(draw.randint(0, len(text)) for _ in range(3))})
    pieces = [text[low:high] for low, high in pairwise(edges)]
    if pieces and draw.random() < 0.5:
        pieces[0], pieces[-1] = "x" + pieces[0], pieces[-1] + "y"
    return [(_VOCABULARY + draw.randrange(100), piece) for piece in pieces]
