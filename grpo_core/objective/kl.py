"""Divergence from the frozen reference: estimators, loss term, reward penalty, token weights."""

import torch
from torch import Tensor

from grpo_core.errors import ConfigError
from grpo_core.objective.aggregation import masked
from grpo_core.objective.config import KlConfig
from grpo_core.objective.ratios import exp_with_tail, tail_nats


def kl_estimate(
    logprobs: Tensor, ref_logprobs: Tensor, *, kind: str = "k3", tail: float | None = None
) -> Tensor:
    """Returns the estimate of KL(policy || reference) of each token, nats, in the inputs' shape.

    ```
    d = ref_logprobs - logprobs
    k1 = -d             unbiased, any sign; as a loss its expected gradient is zero
    k2 = d^2 / 2        biased; as a loss its gradient is that of the reverse KL
    k3 = e^d - 1 - d    unbiased, >= 0; as a loss its gradient is that of the forward KL
    ```

    Source: joschu.net/blog/kl-approx.html; the statements on gradients hold for tokens sampled
    from the policy. k3 grows with the tangent of e^d beyond `tail`, so that it stays finite and
    keeps a gradient.

    Args:
        logprobs: Current policy, any shape.
        ref_logprobs: Reference, same shape.
        kind: `k1`, `k2` or `k3`.
        tail: Start of the tangent; nats; unset: 30 for fp32, 300 for fp64.

    Raises:
        ConfigError: Another kind.
    """
    gap = ref_logprobs - logprobs
    if kind == "k1":
        return -gap
    if kind == "k2":
        return 0.5 * gap.square()
    if kind == "k3":
        bound = tail_nats(gap.dtype) if tail is None else tail
        inner = gap.clamp(max=bound)
        above = gap - inner
        return torch.expm1(inner) - gap + torch.exp(inner) * above
    raise ConfigError(f"kl kind: expected k1, k2 or k3, got {kind!r}")


def kl_loss_tokens(log_ratio: Tensor, gap: Tensor, config: KlConfig) -> Tensor:
    """Returns the KL term of each token before weights and beta, [N, T], with gradient.

    Args:
        log_ratio: logprobs - old_logprobs, [N, T]; read when importance-corrected.
        gap: logprobs - ref_logprobs, [N, T]; 0 where masked.
        config: Reads `kind`, `gradient`, `importance_corrected`.
    """
    zeros = torch.zeros_like(gap)
    term = kl_estimate(gap, zeros, kind=config.kind)
    ratio = exp_with_tail(log_ratio) if config.importance_corrected else None
    if config.gradient == "k2":
        # The gradient of k2 on policy needs the ratio as a plain weight.
        surrogate = kl_estimate(gap, zeros, kind="k2")
        term = surrogate + (term - surrogate).detach()
        ratio = ratio.detach() if ratio is not None else None
    return term if ratio is None else ratio * term


def kl_reward_penalty(
    old_logprobs: Tensor,
    ref_logprobs: Tensor,
    mask: Tensor,
    *,
    kind: str,
    beta: float,
    token_weights: Tensor | None = None,
) -> Tensor:
    """Returns what each rollout's reward loses to divergence, [N], without gradient; subtract it.

    beta times the sum over live tokens, so that k1 makes the reward that of the objective
    E[R] - beta KL(policy || reference) over whole completions.

    Args:
        old_logprobs: Trainer's weights at rollout time, [N, T].
        ref_logprobs: Reference, [N, T].
        mask: Sampled tokens, bool [N, T].
        kind: Estimator.
        beta: Coefficient per nat.
        token_weights: Weight of each token, [N, T]; unset: 1.
    """
    term = kl_estimate(old_logprobs.detach(), ref_logprobs.detach(), kind=kind)
    if token_weights is not None:
        term = term * token_weights
    return beta * masked(term, mask).sum(dim=1)


def kl_token_weights(
    mask: Tensor, config: KlConfig, step_end_mask: Tensor | None = None
) -> Tensor | None:
    """Returns the weight of each token in the KL term, fp32 [N, T]; None when all are 1.

    Tokens that end a line of reasoning get `step_end_weight`, the last `conclusion_tokens` live
    tokens of a rollout `conclusion_weight`; a token that is both gets the product.

    Args:
        mask: Live tokens, bool [N, T].
        config: Reads the two weights and `conclusion_tokens`.
        step_end_mask: Tokens that end a line, bool [N, T]; see `spans.step_end_mask`.

    Raises:
        ConfigError: `step_end_weight` is not 1 and no step_end_mask is given.
    """
    if config.step_end_weight == 1 and config.conclusion_weight == 1:
        return None
    weights = torch.ones(mask.shape, dtype=torch.float32, device=mask.device)
    if config.step_end_weight != 1:
        if step_end_mask is None:
            raise ConfigError("kl.step_end_weight needs the tokens that end a step")
        weights = torch.where(step_end_mask, config.step_end_weight, weights)
    if config.conclusion_weight != 1:
        remaining = mask.flip(1).cumsum(dim=1).flip(1)
        concludes = remaining <= config.conclusion_tokens
        weights = torch.where(concludes, config.conclusion_weight * weights, weights)
    return masked(weights, mask)
