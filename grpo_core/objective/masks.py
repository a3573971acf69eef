"""Which sampled tokens carry loss.

Shapes: N rollouts, T completion tokens (padded). Groups are formed before any mask: masking a
row never changes whose baseline it is in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.errors import ConfigError, DataContractError
from grpo_core.objective.batch import check_shape
from grpo_core.objective.config import MaskConfig
from grpo_core.objective.spans import repeated_ngram_mask, template_span_mask


@dataclass(frozen=True)
class TokenMasks:
    """Masks of one padded batch, bool [N, T].

    Attributes:
        generated: Tokens that the policy sampled, EOS included.
        sample_mask: False on spans that carry no loss although their rollout does.
        completion_mask: Tokens that carry loss: what `LossBatch` takes.
    """

    generated: Tensor
    sample_mask: Tensor
    completion_mask: Tensor


def length_mask(lengths: Tensor, width: int, *, side: str = "right") -> Tensor:
    """Returns True on the tokens of each row, bool [N, T].

    By length and never by token id: the pad token is often the EOS token, and the first EOS is an
    action of the policy.

    Args:
        lengths: Sampled tokens of each row, EOS included, int [N].
        width: T, padded length.
        side: Where the padding is, `right` or `left`.

    Raises:
        DataContractError: A length is negative or above the width.
    """
    outside = lengths[(lengths < 0) | (lengths > width)]
    if outside.numel():
        raise DataContractError(f"lengths: expected 0 to {width}, got {outside.tolist()}")
    position = torch.arange(width, device=lengths.device).unsqueeze(0)
    if side == "left":
        return position >= (width - lengths).unsqueeze(1)
    if side != "right":
        raise DataContractError(f"side: expected right or left, got {side!r}")
    return position < lengths.unsqueeze(1)


def until_eos_mask(token_ids: Tensor, eos_ids: Sequence[int]) -> Tensor:
    """Returns True up to and including the first end token of each row, bool [N, T].

    For token ids whose lengths were not kept; a row without an end token is True throughout.

    Args:
        token_ids: Right-padded completions, int [N, T].
        eos_ids: Every id that ends a completion.
    """
    ends = torch.zeros_like(token_ids, dtype=torch.bool)
    for eos in eos_ids:
        ends |= token_ids == eos
    return (ends.cumsum(dim=1) - ends.to(torch.int64)) == 0


def loss_masks(
    generated: Tensor,
    config: MaskConfig,
    *,
    truncated: Tensor | None = None,
    live_rows: Tensor | None = None,
    token_ids: Tensor | None = None,
    pieces: Sequence[Sequence[str]] | None = None,
) -> TokenMasks:
    """Returns the masks of a batch under a run's configuration.

    Args:
        generated: Sampled tokens, bool [N, T]; prompt and padding False.
        config: Mask section.
        truncated: Rows whose finish_reason is `length`, bool [N]; for `truncated` = drop.
        live_rows: False for rows of dropped groups and rows with a null reward, bool [N].
        token_ids: Completions, int [N, T]; for `repeat_ngram_tokens`.
        pieces: Text of each sampled token of each row, in order, without padding; for
            `template_spans`.

    Raises:
        ConfigError: An option is on and its input is missing.
    """
    sample = torch.ones_like(generated)
    if config.repeat_ngram_tokens is not None:
        if token_ids is None:
            raise ConfigError("mask.repeat_ngram_tokens needs token_ids")
        sample &= ~repeated_ngram_mask(
            token_ids,
            generated,
            ngram_tokens=config.repeat_ngram_tokens,
            free_count=config.repeat_free_count,
        )
    if config.template_spans:
        if pieces is None:
            raise ConfigError("mask.template_spans needs the text of each token")
        sample &= ~template_span_mask(pieces, generated, config.template_spans)
    kept = generated & sample
    if config.truncated == "drop":
        if truncated is None:
            raise ConfigError("mask.truncated drop needs the finish reasons")
        kept = kept & ~_rows("truncated", truncated, generated)
    if live_rows is not None:
        kept = kept & _rows("live_rows", live_rows, generated)
    return TokenMasks(generated=generated, sample_mask=sample, completion_mask=kept)


def _rows(name: str, flags: Tensor, mask: Tensor) -> Tensor:
    check_shape(name, flags, (mask.shape[0],))
    return flags.to(mask.device, torch.bool).unsqueeze(1)
