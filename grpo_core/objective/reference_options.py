"""The fp64 definition of the orthogonal options, for losses that depart from their preset.

Loops and plain numbers again; see `reference`.
"""

from math import exp, isnan

import torch
from torch import Tensor

from grpo_core.objective.config import KlConfig
from grpo_core.objective.presets import ResolvedLoss
from grpo_core.objective.reference import KL, TAIL_NATS, ReferenceStep, clipped_gain


def reference_loss(
    step: ReferenceStep, config: ResolvedLoss, kl: KlConfig | None = None, beta: float = 0.0
) -> Tensor:
    """Returns sum_i w_i sum_t (c_t l_t + beta u_t k_t), each factor by its own definition."""
    total = torch.zeros((), dtype=torch.float64) + 0.0 * _anchor(step)
    for i in step.rollouts:
        weight = rollout_weight(step, i, config)
        for t in step.live[i]:
            term = correction(step, i, t, config) * token_loss(step, i, t, config)
            if kl is not None and kl.place == "loss":
                term = term + beta * kl_token(step, i, t, kl)
            total = total + weight * term
    return total


def _anchor(step: ReferenceStep) -> Tensor:
    """A live log-prob if there is one, so that an empty step still has a gradient."""
    for i in step.rollouts:
        return step.logprobs[i, step.live[i][0]]
    return torch.zeros((), dtype=torch.float64, requires_grad=True)


def rollout_weight(step: ReferenceStep, i: int, config: ResolvedLoss) -> float:
    """Returns the weight of each live token of rollout i."""
    if config.aggregation == "token_mean":
        return 1.0 / sum(len(tokens) for tokens in step.live)
    if config.aggregation == "sequence_mean":
        return 1.0 / (len(step.rollouts) * len(step.live[i]))
    if config.aggregation == "prompt_mean":
        groups = {step.groups[j] for j in step.rollouts}
        mine = sum(len(step.live[j]) for j in step.rollouts if step.groups[j] == step.groups[i])
        return 1.0 / (len(groups) * mine)
    return 1.0 / (step.sampled_rollouts * (config.constant_length_tokens or 0))


def token_loss(step: ReferenceStep, i: int, t: int, config: ResolvedLoss) -> Tensor:
    """Returns the policy term of a token, to be minimised."""
    advantage = step.advantages[i][t]
    if config.ratio == "token":
        ratio = step.ratio(i, t)
    elif config.ratio == "sequence":
        ratio = step.sequence_ratio(i)
    else:
        own = torch.exp(step.logprobs[i, t] - step.logprobs[i, t].detach())
        ratio = step.sequence_ratio(i).detach() * own
    if config.surrogate == "weighted":
        cap = config.ratio_cap if config.ratio_cap is not None else float("inf")
        return -min(float(ratio.detach()), cap) * advantage * step.logprobs[i, t]
    low, high = config.clip_low or 0.0, config.clip_high or 0.0
    return -clipped_gain(ratio, advantage, low, high, config.dual_clip)


def correction(step: ReferenceStep, i: int, t: int, config: ResolvedLoss) -> float:
    """Returns sampler correction x off-policy mask of a token."""
    low, cap, kind = config.correction_low, config.correction_cap, config.sampler_correction
    gaps = {s: _sampler_gap(step, i, s) for s in step.live[i]}
    weight = 1.0
    if kind == "token_truncated":
        weight = min(_exp(gaps[t]), cap)
    elif kind == "token_masked":
        weight = _exp(gaps[t]) if low <= _exp(gaps[t]) <= cap else 0.0
    elif kind == "geometric_mask":
        weight = 1.0 if low <= _exp(sum(gaps.values()) / len(gaps)) <= cap else 0.0
    elif kind == "product_mask":
        weight = 1.0 if low <= _exp(sum(gaps.values())) <= cap else 0.0
    if config.off_policy_mask_nats is not None and step.advantages[i][t] < 0:
        drift = sum(-float(step.log_ratio(i, s).detach()) - gaps[s] for s in gaps) / len(gaps)
        weight = 0.0 if drift > config.off_policy_mask_nats else weight
    return weight


def _sampler_gap(step: ReferenceStep, i: int, t: int) -> float:
    """Log pi_old - log pi_sampler; 0 where the sampler reported nothing."""
    if step.sampling_logprobs is None or isnan(step.sampling_logprobs[i][t]):
        return 0.0
    return step.old_logprobs[i][t] - step.sampling_logprobs[i][t]


def _exp(x: float) -> float:
    return exp(x) if x <= TAIL_NATS else exp(TAIL_NATS) * (1.0 + x - TAIL_NATS)


def kl_token(step: ReferenceStep, i: int, t: int, kl: KlConfig) -> Tensor:
    """Returns u_t k_t of a token, importance-corrected where configured."""
    reference = step.ref_logprobs or []
    d = reference[i][t] - step.logprobs[i, t]
    value = KL[kl.kind](d)
    ratio = step.ratio(i, t) if kl.importance_corrected else torch.ones((), dtype=torch.float64)
    if kl.gradient == "k2":
        # value of the estimator, gradient of ratio x k2: d k2 / d logprobs = -d
        slope = float((-d * ratio).detach())
        term = (ratio * value).detach() + slope * (
            step.logprobs[i, t] - step.logprobs[i, t].detach()
        )
    else:
        term = ratio * value
    weights = step.kl_token_weights
    return term * (weights[i][t] if weights is not None else 1.0)
