"""Weights that turn token losses into the loss of one optimiser step.

Every aggregation is a weight a token, the same whatever micro-batch the token sits in, so that
losses and gradients of micro-batches add up to those of the step.
"""

import torch
from torch import Tensor

from grpo_core.errors import DataContractError
from grpo_core.objective.batch import StepTotals
from grpo_core.objective.presets import ResolvedLoss


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Returns the values with 0 where the mask is False; nothing leaks, NaN included."""
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Returns the mean over live tokens of each row, [N]; 0 for a row without any."""
    return masked(values, mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def aggregation_weights(
    mask: Tensor, totals: StepTotals, config: ResolvedLoss, group_index: Tensor | None = None
) -> Tensor:
    """Returns the weight of each token in the step's loss, fp64 [N, T]; 0 where masked.

    ```
    token_mean       1 / live tokens of the step
    sequence_mean    1 / (live tokens of the rollout x live rollouts)
    prompt_mean      1 / (live tokens of the group x live groups)
    constant_length  1 / (sampled rollouts x constant_length_tokens)
    ```

    Args:
        mask: Live tokens, bool [N, T].
        totals: Counts over the whole step.
        config: Resolved loss; reads `aggregation` and `constant_length_tokens`.
        group_index: Group of each row, int64 [N]; for `prompt_mean`.

    Raises:
        DataContractError: `prompt_mean` without group_index.
    """
    lengths = mask.sum(dim=1, keepdim=True).to(torch.float64)
    if config.aggregation == "token_mean":
        denominator = torch.full_like(lengths, totals.live_tokens)
    elif config.aggregation == "sequence_mean":
        denominator = lengths * totals.live_rollouts
    elif config.aggregation == "constant_length":
        constant = config.constant_length_tokens or 0
        denominator = torch.full_like(lengths, totals.sampled_rollouts * constant)
    else:
        if group_index is None:
            raise DataContractError("loss.aggregation prompt_mean needs group_index in the batch")
        per_group = totals.prompt_tokens.to(lengths.device, torch.float64)
        denominator = (per_group[group_index] * totals.live_prompts).unsqueeze(1)
    return masked((1.0 / denominator).expand(mask.shape), mask)
