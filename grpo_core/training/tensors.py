"""Padded tensors of a micro-batch from rows of token lists.

Shapes: N rollouts, T longest completion of the micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from grpo_core.config import RunConfig
from grpo_core.objective.kl import kl_token_weights
from grpo_core.objective.masks import TokenMasks, length_mask, loss_masks
from grpo_core.objective.spans import step_end_mask
from grpo_core.policy.origins import RefOrigin


@dataclass(frozen=True)
class TrainRow:
    """One rollout as the update needs it; lists have one entry a completion token.

    Args:
        prompt_token_ids: [P].
        completion_token_ids: [T].
        temperature: Sampling temperature.
        is_truncated: Ended by the budget.
        is_live: Carries loss.
        group: Group within the batch.
        advantage: Of the rollout.
        old_logprobs: [T], trainer's weights at rollout time.
        sampling_logprobs: [T].
        ref_logprobs: [T], or None when the reference is not needed.
        pieces: Text of each token, or None when nothing needs it.
        ref_origin: Where the reference log-probs came from.
        ref_seconds: What getting them took.
    """

    prompt_token_ids: tuple[int, ...]
    completion_token_ids: tuple[int, ...]
    temperature: float
    is_truncated: bool
    is_live: bool
    group: int
    advantage: float
    old_logprobs: npt.NDArray[np.float32]
    sampling_logprobs: npt.NDArray[np.float32]
    ref_logprobs: npt.NDArray[np.float32] | None
    pieces: tuple[str, ...] | None
    ref_origin: RefOrigin = RefOrigin.UNKNOWN
    ref_seconds: float = 0.0


def needs_pieces(config: RunConfig) -> bool:
    """Whether masks or KL weights look at the text of single tokens."""
    return bool(config.mask.template_spans) or config.kl.step_end_weight != 1


def row_masks(rows: Sequence[TrainRow], config: RunConfig) -> TokenMasks:
    """Masks of the rows padded to their longest completion."""
    lengths = torch.tensor([len(row.completion_token_ids) for row in rows])
    generated = length_mask(lengths, int(lengths.max()) if rows else 0)
    return loss_masks(
        generated,
        config.mask,
        truncated=torch.tensor([row.is_truncated for row in rows]),
        live_rows=torch.tensor([row.is_live for row in rows]),
        token_ids=pad([row.completion_token_ids for row in rows], torch.int64),
        pieces=_pieces(rows),
    )


def kl_weights(
    rows: Sequence[TrainRow], masks: TokenMasks, config: RunConfig
) -> torch.Tensor | None:
    """Weight of each token in the KL term, or None when all are 1.

    In the loss the term is over live tokens, in the reward over all that were sampled.
    """
    pieces = _pieces(rows)
    ends = step_end_mask(pieces, masks.generated) if pieces is not None else None
    counted = masks.generated if config.kl.place == "reward" else masks.completion_mask
    return kl_token_weights(counted, config.kl, ends)


def pad(rows: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    """Right-pad lists of numbers with 0 to [N, T]."""
    width = max((len(row) for row in rows), default=0)
    padded = torch.zeros((len(rows), width), dtype=dtype)
    for n, row in enumerate(rows):
        padded[n, : len(row)] = torch.tensor(row, dtype=dtype)
    return padded


def _pieces(rows: Sequence[TrainRow]) -> list[tuple[str, ...]] | None:
    pieces = [row.pieces for row in rows if row.pieces is not None]
    return pieces if rows and len(pieces) == len(rows) else None
