"""Generated optimiser steps with everything that breaks losses in it, for checks of a loss.

Dead groups, fully masked rows, mixed lengths, nulls of the sampler, NaN at every masked position,
ratios on both sides of the clip bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from grpo_core.objective.advantages import group_advantages
from grpo_core.objective.batch import LossBatch, StepTotals, step_totals
from grpo_core.objective.reference import ReferenceStep

_SAMPLER_DRIFT = 0.05


@dataclass(frozen=True)
class GeneratedStep:
    """One step, right-padded; fp32 [N, T] unless said otherwise, NaN where masked.

    Attributes:
        logprobs: Current policy.
        old_logprobs: Trainer's weights at rollout time.
        ref_logprobs: Reference.
        sampling_logprobs: Sampler; NaN on some live tokens too.
        entropy: At temperature 1.
        kl_token_weights: Weights in the KL term.
        advantages: One a token.
        mask: Live tokens, bool.
        group_index: int64 [N].
    """

    logprobs: Tensor
    old_logprobs: Tensor
    ref_logprobs: Tensor
    sampling_logprobs: Tensor
    entropy: Tensor
    kl_token_weights: Tensor
    advantages: Tensor
    mask: Tensor
    group_index: Tensor

    @property
    def totals(self) -> StepTotals:
        """Counts of the whole step."""
        return step_totals(self.mask, group_index=self.group_index)

    def rows(self, index: Tensor) -> "GeneratedStep":
        """Returns the step restricted to rows, in the given order."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def padded(self, left: int, right: int) -> "GeneratedStep":
        """Returns the step with masked columns of NaN added on both sides."""
        return replace(
            self,
            **{
                f.name: _pad(getattr(self, f.name), left, right)
                for f in fields(self)
                if f.name != "group_index"
            },
        )

    def batch(self, totals: StepTotals, *, needs: Sequence[str] = ()) -> LossBatch:
        """Returns the micro-batch of these rows; optional tensors only where named."""
        optional = {name: getattr(self, name) for name in needs}
        return LossBatch(
            logprobs=self.logprobs,
            old_logprobs=self.old_logprobs,
            advantages=self.advantages,
            completion_mask=self.mask,
            totals=totals,
            group_index=self.group_index,
            **optional,
        )

    def reference(self, *, needs: Sequence[str] = ()) -> ReferenceStep:
        """Returns the same numbers, exactly, for the fp64 definition."""
        optional = {name: getattr(self, name).tolist() for name in needs if name != "entropy"}
        return ReferenceStep(
            logprobs=self.logprobs.detach().to(torch.float64).requires_grad_(),
            old_logprobs=self.old_logprobs.tolist(),
            advantages=self.advantages.tolist(),
            live=[row.nonzero().flatten().tolist() for row in self.mask],
            groups=self.group_index.tolist(),
            sampled_rollouts=self.mask.shape[0],
            **optional,
        )


def generate_step(
    seed: int,
    *,
    groups: int = 4,
    group_size: int = 4,
    tokens: int = 9,
    drift: float = 0.3,
    std: str = "sample",
    per_token: bool = False,
) -> GeneratedStep:
    """Returns a step drawn from a seed.

    Args:
        seed: Of the generator.
        groups: Prompts; the last one is dead when there are at least two.
        group_size: Rollouts a prompt.
        tokens: Longest completion.
        drift: Standard deviation of the log-ratio of a token, nats.
        std: Divisor of the advantages.
        per_token: Advantages that differ from token to token.
    """
    draw = torch.Generator().manual_seed(seed)
    shape = (groups * group_size, tokens)
    rewards = torch.rand((groups, group_size), generator=draw, dtype=torch.float64)
    if groups > 1:
        rewards[-1] = 1.0
    lengths = torch.randint(1, tokens + 1, shape[:1], generator=draw)
    lengths[0] = tokens
    mask = torch.arange(tokens).unsqueeze(0) < lengths.unsqueeze(1)
    mask &= torch.rand(shape, generator=draw) > 0.1  # tokens of masked spans
    mask[1] = False  # a truncated completion that is dropped
    if groups > 1:
        mask[-group_size:] = False
    old = -2.5 * torch.rand(shape, generator=draw)
    sampling = old + _SAMPLER_DRIFT * _heavy_tailed(shape, draw)
    missing = torch.rand(shape, generator=draw) < 0.05
    advantages = group_advantages(rewards, std=std).reshape(-1, 1).expand(shape).to(torch.float32)
    if per_token:
        advantages = advantages * (0.5 + torch.rand(shape, generator=draw))
    step = GeneratedStep(
        logprobs=old + drift * _heavy_tailed(shape, draw),
        old_logprobs=old,
        ref_logprobs=old + drift * torch.randn(shape, generator=draw),
        sampling_logprobs=torch.where(missing, torch.nan, sampling),
        entropy=torch.rand(shape, generator=draw),
        kl_token_weights=0.5 + torch.rand(shape, generator=draw),
        advantages=advantages,
        mask=mask,
        group_index=torch.arange(groups).repeat_interleave(group_size),
    )
    return _poisoned(step)


def _heavy_tailed(shape: tuple[int, int], draw: torch.Generator) -> Tensor:
    """Returns normal numbers, one in twenty of them ten times as far out."""
    is_outlier = torch.rand(shape, generator=draw) < 0.05
    return torch.where(is_outlier, 10.0, 1.0) * torch.randn(shape, generator=draw)


def _poisoned(step: GeneratedStep) -> GeneratedStep:
    """Returns the step with NaN at every masked position of every floating tensor."""
    return replace(
        step,
        **{
            f.name: torch.where(step.mask, getattr(step, f.name), torch.nan)
            for f in fields(step)
            if f.name not in ("mask", "group_index")
        },
    )


def _pad(tensor: Tensor, left: int, right: int) -> Tensor:
    fill = float("nan") if tensor.is_floating_point() else False
    return torch.nn.functional.pad(tensor, (left, right), value=fill)
