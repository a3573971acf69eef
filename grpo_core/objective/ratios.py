"""Importance ratios: current over old policy, and trainer over sampler."""

import torch
from torch import Tensor

from grpo_core.objective.aggregation import masked, row_mean
from grpo_core.objective.presets import ResolvedLoss

_TAIL_NATS = 30.0
_TAIL_NATS_FP64 = 300.0


def tail_nats(dtype: torch.dtype) -> float:
    """Returns the exponent beyond which exp is continued by its tangent.

    30 nats for fp32: exp(30) is 1e13, so that a squared gradient norm still fits; 300 for fp64.
    """
    return _TAIL_NATS_FP64 if dtype == torch.float64 else _TAIL_NATS


def exp_with_tail(exponent: Tensor, limit: float | None = None) -> Tensor:
    """Returns exp(exponent), continued by its tangent above `limit`.

    exp(x) for x <= limit, exp(limit) (1 + x - limit) above: neither value nor gradient
    overflows, and the gradient of the tokens that drifted most does not vanish.

    Args:
        exponent: Nats, any shape.
        limit: Start of the tangent; unset: `tail_nats` of the dtype.
    """
    bound = tail_nats(exponent.dtype) if limit is None else limit
    inner = exponent.clamp(max=bound)
    return torch.exp(inner) * (1.0 + (exponent - inner))


def importance_ratio(log_ratio: Tensor, mask: Tensor, level: str) -> Tensor:
    """Returns the importance ratio of each token, [N, T], with gradient.

    ```
    token           r_t = exp(log_ratio_t)
    sequence        s   = exp(mean over the rollout's live tokens of log_ratio)    GSPO eq. 7
    sequence_token  s_t = sg[s] pi_t / sg[pi_t]                                    GSPO eq. 14
    ```

    Args:
        log_ratio: logprobs - old_logprobs, [N, T]; 0 where masked.
        mask: Live tokens, bool [N, T].
        level: One of `RatioLevel`.
    """
    if level == "token":
        return exp_with_tail(log_ratio)
    mean = row_mean(log_ratio, mask).unsqueeze(1)
    if level == "sequence":
        return exp_with_tail(mean).expand(log_ratio.shape)
    return exp_with_tail(mean).detach() * torch.exp(log_ratio - log_ratio.detach())


def sampler_weights(sampler_log_ratio: Tensor, mask: Tensor, config: ResolvedLoss) -> Tensor:
    """Returns the sampler-trainer correction of each token, [N, T], without gradient.

    ```
    rho_t = exp(old_logprobs_t - sampling_logprobs_t)
    token_truncated  min(rho_t, cap)                               TIS
    token_masked     rho_t if low <= rho_t <= cap else 0           IcePop, arXiv 2510.18855
    geometric_mask   1 if low <= exp(mean log rho) <= cap else 0   whole rollout
    product_mask     1 if low <= exp(sum log rho) <= cap else 0    whole rollout
    ```

    Corrected tokens stay in the denominators.

    Args:
        sampler_log_ratio: old_logprobs - sampling_logprobs, [N, T]; 0 where masked or where the
            sampler reported none.
        mask: Live tokens, bool [N, T].
        config: Resolved loss; reads the correction and its bounds.
    """
    exponent = sampler_log_ratio.detach()
    low, cap = config.correction_low, config.correction_cap
    if config.sampler_correction == "none":
        return torch.ones_like(exponent)
    if config.sampler_correction == "token_truncated":
        return exp_with_tail(exponent).clamp(max=cap)
    if config.sampler_correction == "token_masked":
        rho = exp_with_tail(exponent)
        return masked(rho, (rho >= low) & (rho <= cap))
    if config.sampler_correction == "geometric_mask":
        rho = exp_with_tail(row_mean(exponent, mask).unsqueeze(1))
    else:
        rho = exp_with_tail(masked(exponent, mask).sum(dim=1, keepdim=True))
    return ((rho >= low) & (rho <= cap)).to(exponent.dtype).expand(exponent.shape)


def off_policy_weights(
    behaviour_log_ratio: Tensor, advantages: Tensor, mask: Tensor, config: ResolvedLoss
) -> Tensor:
    """Returns 0 for tokens of negative advantage in rollouts that left the policy, else 1.

    A rollout has left it when the mean over its live tokens of log(behaviour / current) exceeds
    `off_policy_mask_nats` (DeepSeek-V3.2, arXiv 2512.02556, section 3.1).

    Args:
        behaviour_log_ratio: Behaviour log-probs (sampling, else old) - logprobs, [N, T].
        advantages: One a token, [N, T].
        mask: Live tokens, bool [N, T].
        config: Resolved loss.
    """
    ones = torch.ones_like(behaviour_log_ratio)
    if config.off_policy_mask_nats is None:
        return ones
    drift = row_mean(behaviour_log_ratio, mask).unsqueeze(1)
    return masked(ones, ~((advantages < 0) & (drift > config.off_policy_mask_nats)))
