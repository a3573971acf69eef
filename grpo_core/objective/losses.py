"""The policy loss of every method, over orthogonal options.

Shapes: N rollouts, T completion tokens (padded).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.errors import DataContractError
from grpo_core.objective.aggregation import aggregation_weights, masked
from grpo_core.objective.batch import LossBatch, LossOutput
from grpo_core.objective.config import KlConfig, LossConfig
from grpo_core.objective.kl import kl_loss_tokens
from grpo_core.objective.metrics import Traces, loss_metrics
from grpo_core.objective.presets import ResolvedLoss, resolve_loss
from grpo_core.objective.ratios import importance_ratio, off_policy_weights, sampler_weights


@dataclass(frozen=True)
class _Selected:
    """The batch with 0 at every masked position, [N, T]; log-probs are selected in the sums."""

    logprobs: Tensor
    log_ratio: Tensor
    advantages: Tensor
    sampler_log_ratio: Tensor | None
    ref_gap: Tensor | None


def policy_loss(
    batch: LossBatch,
    config: LossConfig | ResolvedLoss,
    *,
    kl: KlConfig | None = None,
    beta: float | None = None,
) -> LossOutput:
    """Returns the loss of a micro-batch, its metrics and the weight of each token.

    ```
    loss = sum_t w_t ( c_t l_t + beta k_t u_t )
    l_t  = -min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t)    clipped
    l_t  = -sg[min(r_t, ratio_cap)] A_t logprobs_t                      weighted
    ```

    with w from `aggregation_weights`, c the sampler correction and off-policy mask, k the KL
    estimate and u its token weights; sums of micro-batches and ranks are the loss of the step.
    Masked positions are selected out before any arithmetic.

    Args:
        batch: Tensors of the micro-batch and totals of the step.
        config: Loss section, or its resolved form.
        kl: KL section; unset or `place` other than `loss`: no KL term.
        beta: Coefficient now, from schedule or controller; unset: `kl.beta`.

    Raises:
        DataContractError: A tensor that the configuration needs is missing.
        ConfigError: See `resolve_loss`.
    """
    resolved = config if isinstance(config, ResolvedLoss) else resolve_loss(config)
    mask = batch.completion_mask
    inputs = _select(batch)
    correction = _correction(inputs, mask, resolved)
    ratio = importance_ratio(inputs.log_ratio, mask, resolved.ratio)
    policy_tokens = surrogate_loss(ratio, inputs.advantages, inputs.logprobs, resolved)
    weights = aggregation_weights(mask, batch.totals, resolved, batch.group_index).to(ratio.dtype)
    policy_weights = weights * correction
    policy_sum = masked(policy_weights * policy_tokens, mask).sum(dtype=torch.float64)
    coefficient = _coefficient(kl, beta)
    kl_sum = torch.zeros_like(policy_sum)
    if kl is not None and kl.place == "loss" and coefficient != 0:
        kl_sum = coefficient * _kl_sum(batch, inputs, weights, kl)
    traces = Traces(
        policy_sum=policy_sum,
        kl_sum=kl_sum,
        ratio=ratio,
        log_ratio=inputs.log_ratio,
        advantages=inputs.advantages,
        correction=correction,
        ref_gap=inputs.ref_gap,
        sampler_log_ratio=inputs.sampler_log_ratio,
    )
    return LossOutput(
        loss=(policy_sum + kl_sum).to(inputs.logprobs.dtype),
        metrics=loss_metrics(batch, traces, resolved),
        token_weights=policy_weights,
    )


def surrogate_loss(
    ratio: Tensor, advantages: Tensor, logprobs: Tensor, config: ResolvedLoss
) -> Tensor:
    """Returns the policy term of each token, to be minimised, [N, T].

    Args:
        ratio: Importance ratio, with gradient.
        advantages: One a token.
        logprobs: Current policy, with gradient; read by the weighted surrogate.
        config: Resolved loss; reads the surrogate and its bounds.
    """
    if config.surrogate == "weighted":
        cap = torch.inf if config.ratio_cap is None else config.ratio_cap
        return -(ratio.detach().clamp(max=cap) * advantages * logprobs)
    low = 1.0 - (config.clip_low or 0.0)
    high = 1.0 + (config.clip_high or 0.0)
    gain = torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
    if config.dual_clip is not None:
        floor = config.dual_clip * advantages
        gain = torch.where(advantages < 0, torch.maximum(gain, floor), gain)
    return -gain


def _select(batch: LossBatch) -> _Selected:
    mask = batch.completion_mask
    exact = batch.logprobs if batch.logprobs.dtype == torch.float64 else batch.logprobs.float()
    advantages = batch.advantages.detach().to(exact.dtype)
    if advantages.dim() == 1:
        advantages = advantages.unsqueeze(1).expand(mask.shape)
    sampler = None
    if batch.sampling_logprobs is not None:
        reported = mask & torch.isfinite(batch.sampling_logprobs)
        sampler = masked(batch.old_logprobs - batch.sampling_logprobs, reported).to(exact.dtype)
    gap = None
    if batch.ref_logprobs is not None:
        gap = masked(exact - batch.ref_logprobs.detach(), mask)
    log_ratio = masked(exact - batch.old_logprobs.detach(), mask)
    return _Selected(exact, log_ratio, masked(advantages, mask), sampler, gap)


def _correction(inputs: _Selected, mask: Tensor, config: ResolvedLoss) -> Tensor:
    """Returns the product of sampler correction and off-policy mask, [N, T], no gradient."""
    behaviour = -inputs.log_ratio
    correction = torch.ones_like(behaviour)
    if inputs.sampler_log_ratio is not None:
        correction = sampler_weights(inputs.sampler_log_ratio, mask, config)
        behaviour = behaviour - inputs.sampler_log_ratio
    elif config.sampler_correction != "none":
        raise DataContractError(
            f"loss.sampler_correction {config.sampler_correction} needs sampling_logprobs"
        )
    return correction * off_policy_weights(behaviour, inputs.advantages, mask, config)


def _coefficient(kl: KlConfig | None, beta: float | None) -> float:
    if beta is not None:
        return beta
    return kl.beta if kl is not None else 0.0


def _kl_sum(batch: LossBatch, inputs: _Selected, weights: Tensor, kl: KlConfig) -> Tensor:
    if inputs.ref_gap is None:
        raise DataContractError("kl.place loss needs ref_logprobs")
    mask = batch.completion_mask
    tokens = kl_loss_tokens(inputs.log_ratio, inputs.ref_gap, kl)
    if batch.kl_token_weights is not None:
        tokens = tokens * batch.kl_token_weights
    return masked(weights * tokens, mask).sum(dtype=torch.float64)
