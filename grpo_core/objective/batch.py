"""What a loss is computed from: one micro-batch, and the totals of the whole optimiser step.

Shapes: N rollouts (row-major over prompts and their group), T completion tokens (padded).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.errors import DataContractError


def check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    """Raises DataContractError when a tensor has not the expected shape."""
    if tuple(tensor.shape) != expected:
        raise DataContractError(
            f"{name}: expected shape {list(expected)}, got {list(tensor.shape)}"
        )


@dataclass(frozen=True)
class StepTotals:
    """Counts over all micro-batches and ranks of one optimiser step, the loss's denominators.

    Attributes:
        live_tokens: Unmasked tokens of groups that are not dropped.
        generated_tokens: Tokens sampled for the step, masked and dropped ones included.
        live_rollouts: Rollouts with at least one live token.
        sampled_rollouts: Rollouts sampled for the step, dropped ones included.
        live_prompts: Groups with at least one live token.
        prompt_tokens: Live tokens of each group, [groups], int64.
    """

    live_tokens: int
    generated_tokens: int
    live_rollouts: int
    sampled_rollouts: int
    live_prompts: int
    prompt_tokens: Tensor


def step_totals(
    completion_masks: Tensor | Sequence[Tensor],
    *,
    group_index: Tensor | Sequence[Tensor] | None = None,
    num_groups: int | None = None,
    generated_tokens: int | None = None,
    sampled_rollouts: int | None = None,
    reduce_sum: Callable[[Tensor], Tensor] | None = None,
) -> StepTotals:
    """Returns the totals of an optimiser step, once, before its first micro-batch.

    Args:
        completion_masks: Live tokens, bool [N, T], or one such mask a micro-batch.
        group_index: Group of each row in 0 .. num_groups - 1, int64 [N], or one a micro-batch;
            the same numbering on all ranks. Unset: every row is a group of its own, which only
            `prompt_mean` would notice.
        num_groups: Groups of the whole step; unset: the largest index plus one.
        generated_tokens: Tokens sampled by this rank, where rows were left out of the masks or
            masked; unset: the live tokens.
        sampled_rollouts: Rollouts sampled by this rank; unset: the rows of the masks.
        reduce_sum: Sums an int64 vector over the ranks; unset: one rank.

    Raises:
        DataContractError: Masks and group indices do not fit together.
    """
    masks = [completion_masks] if isinstance(completion_masks, Tensor) else list(completion_masks)
    lengths = torch.cat([mask.sum(dim=1) for mask in masks]).to(torch.int64)
    rows = lengths.numel()
    if group_index is None:
        if reduce_sum is not None:
            raise DataContractError("step_totals: group_index is needed where ranks are summed")
        groups = torch.arange(rows, device=lengths.device)
    else:
        groups = group_index if isinstance(group_index, Tensor) else torch.cat(list(group_index))
    check_shape("group_index", groups, (rows,))
    size = num_groups if num_groups is not None else int(groups.max()) + 1 if rows else 0
    per_group = torch.zeros(size, dtype=torch.int64, device=lengths.device)
    per_group.index_add_(0, groups.to(torch.int64), lengths)
    counts = torch.tensor(
        [
            int(lengths.sum()) if generated_tokens is None else generated_tokens,
            int((lengths > 0).sum()),
            rows if sampled_rollouts is None else sampled_rollouts,
        ],
        device=lengths.device,
    )
    packed = torch.cat([counts, per_group])
    if reduce_sum is not None:
        packed = reduce_sum(packed)
    generated, live_rollouts, sampled = packed[:3].tolist()
    return StepTotals(
        live_tokens=int(packed[3:].sum()),
        generated_tokens=generated,
        live_rollouts=live_rollouts,
        sampled_rollouts=sampled,
        live_prompts=int((packed[3:] > 0).sum()),
        prompt_tokens=packed[3:],
    )


@dataclass(frozen=True)
class LossBatch:
    """One micro-batch; masked positions may hold anything, NaN included.

    Attributes:
        logprobs: Current policy, with gradient, fp32 [N, T]; nats.
        old_logprobs: Trainer's weights at rollout time, fp32 [N, T].
        advantages: One a rollout [N] or one a token [N, T].
        completion_mask: True on live tokens, bool [N, T]; rows of dropped groups are all False.
        totals: Counts over the whole optimiser step.
        ref_logprobs: Frozen reference, fp32 [N, T].
        sampling_logprobs: As the sampler reported them, fp32 [N, T]; NaN where it did not.
        entropy: Of the policy at temperature 1, [N, T]; a metric without gradient.
        sampling_entropy: Of the policy at the sampling temperature, [N, T].
        group_index: Group of each row, int64 [N]; read by `prompt_mean`.
        kl_token_weights: Weight of each token in the KL term, [N, T]; unset: 1.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    completion_mask: Tensor
    totals: StepTotals
    ref_logprobs: Tensor | None = None
    sampling_logprobs: Tensor | None = None
    entropy: Tensor | None = None
    sampling_entropy: Tensor | None = None
    group_index: Tensor | None = None
    kl_token_weights: Tensor | None = None

    def __post_init__(self) -> None:
        if self.logprobs.dim() != 2:
            raise DataContractError(
                f"logprobs: expected shape [N, T], got {list(self.logprobs.shape)}"
            )
        shape = tuple(self.logprobs.shape)
        for name in (
            "old_logprobs",
            "completion_mask",
            "ref_logprobs",
            "sampling_logprobs",
            "entropy",
            "sampling_entropy",
            "kl_token_weights",
        ):
            tensor = getattr(self, name)
            if tensor is not None:
                check_shape(name, tensor, shape)
        check_shape(
            "advantages", self.advantages, shape[:1] if self.advantages.dim() == 1 else shape
        )
        if self.group_index is not None:
            check_shape("group_index", self.group_index, shape[:1])
        if self.completion_mask.dtype != torch.bool:
            raise DataContractError(
                f"completion_mask: expected bool, got {self.completion_mask.dtype}"
            )

    @classmethod
    def whole_step(
        cls,
        logprobs: Tensor,
        old_logprobs: Tensor,
        advantages: Tensor,
        completion_mask: Tensor,
        **optional: Tensor,
    ) -> "LossBatch":
        """Returns a batch that is the whole optimiser step, its totals counted from itself."""
        totals = step_totals(completion_mask, group_index=optional.get("group_index"))
        return cls(logprobs, old_logprobs, advantages, completion_mask, totals, **optional)


@dataclass(frozen=True)
class LossOutput:
    """Result of a micro-batch.

    Attributes:
        loss: To be minimised, scalar; sums over micro-batches and ranks to the step's loss.
        metrics: Sums, counts and extremes, fp64 scalars without gradient, to be merged.
        token_weights: Weight of each token in the policy term, [N, T], without gradient.
    """

    loss: Tensor
    metrics: dict[str, Tensor]
    token_weights: Tensor
