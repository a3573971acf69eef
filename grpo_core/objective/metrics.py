"""What the loss reports: sums and counts of a micro-batch, merged and divided once a step.

Keys end in `_sum`, `_count`, `_max` or `_min`, which says how two of them merge; the result does
not depend on how a step was split.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.errors import DataContractError
from grpo_core.objective.batch import LossBatch, StepTotals
from grpo_core.objective.kl import kl_estimate
from grpo_core.objective.presets import ResolvedLoss
from grpo_core.objective.ratios import exp_with_tail, tail_nats

Metrics = dict[str, Tensor]


@dataclass(frozen=True)
class Traces:
    """Intermediate results of the loss, [N, T] or scalar; 0 where masked."""

    policy_sum: Tensor
    kl_sum: Tensor
    ratio: Tensor
    log_ratio: Tensor
    advantages: Tensor
    correction: Tensor
    ref_gap: Tensor | None
    sampler_log_ratio: Tensor | None


@torch.no_grad()
def loss_metrics(batch: LossBatch, traces: Traces, config: ResolvedLoss) -> Metrics:
    """Returns the metrics of a micro-batch as fp64 scalars to be merged."""
    mask = batch.completion_mask
    ratio = traces.ratio[mask].to(torch.float64)
    metrics = {
        "policy_loss_sum": traces.policy_sum.detach(),
        "kl_loss_sum": traces.kl_sum.detach(),
        "live_token_count": _count(mask),
        "advantage_token_count": _count(traces.advantages[mask] != 0),
        "importance_ratio_sum": ratio.sum(),
        "importance_ratio_square_sum": ratio.square().sum(),
        "importance_ratio_max": _extreme(ratio, -torch.inf, torch.max),
        "importance_ratio_min": _extreme(ratio, torch.inf, torch.min),
        "tail_token_count": _count(traces.log_ratio[mask] > tail_nats(traces.log_ratio.dtype)),
        "old_kl_k3_sum": _k3_sum(-traces.log_ratio[mask]),
        "corrected_away_token_count": _count(traces.correction[mask] == 0),
        "nonfinite_token_count": _count(~torch.isfinite(ratio)),
    }
    metrics |= _clip_counts(ratio, traces.advantages[mask], config)
    if traces.ref_gap is not None:
        gap = traces.ref_gap[mask]
        metrics["ref_kl_k1_sum"] = gap.to(torch.float64).sum()
        metrics["ref_kl_k3_sum"] = _k3_sum(gap)
        metrics["ref_tail_token_count"] = _count(-gap > tail_nats(gap.dtype))
    if batch.sampling_logprobs is not None and traces.sampler_log_ratio is not None:
        metrics |= _sampler_metrics(batch.sampling_logprobs[mask], traces.sampler_log_ratio[mask])
    for name, values in (
        ("policy_entropy_nats", batch.entropy),
        ("sampling_entropy_nats", batch.sampling_entropy),
    ):
        if values is not None:
            metrics[f"{name}_sum"] = values[mask].to(torch.float64).sum()
    return metrics


def merge_metrics(parts: Iterable[Mapping[str, Tensor]]) -> Metrics:
    """Returns the metrics of several micro-batches as those of one."""
    merged: Metrics = {}
    for part in parts:
        for name, value in part.items():
            merged[name] = _merge(name, merged[name], value) if name in merged else value
    return merged


def reduce_metrics(
    metrics: Mapping[str, Tensor],
    *,
    reduce_sum: Callable[[Tensor], Tensor],
    reduce_max: Callable[[Tensor], Tensor],
) -> Metrics:
    """Returns the metrics over all ranks in two reductions, sums and extremes.

    Args:
        metrics: This rank's, merged over its micro-batches; the same names on every rank.
        reduce_sum: Sums an fp64 vector over the ranks.
        reduce_max: Takes its maximum over the ranks.
    """
    extremes = sorted(name for name in metrics if name.endswith(("_max", "_min")))
    sums = sorted(name for name in metrics if name not in extremes)
    signs = torch.tensor([-1.0 if name.endswith("_min") else 1.0 for name in extremes])
    added = reduce_sum(torch.stack([metrics[name] for name in sums]))
    signs = signs.to(added.device, torch.float64)
    highest = signs * reduce_max(signs * torch.stack([metrics[name] for name in extremes]))
    return dict(zip(sums, added, strict=True)) | dict(zip(extremes, highest, strict=True))


def finalize_metrics(metrics: Mapping[str, Tensor], totals: StepTotals) -> dict[str, float]:
    """Returns the step's metrics as numbers; rates over live tokens are 0 when there are none.

    Args:
        metrics: Merged over micro-batches and ranks.
        totals: Counts over the whole step.

    Raises:
        DataContractError: The metrics miss tokens that the totals count, so a micro-batch is
            missing or was counted twice.
    """
    values = {name: float(value) for name, value in metrics.items()}
    tokens = values.pop("live_token_count")
    if tokens != totals.live_tokens:
        raise DataContractError(
            f"metrics cover {tokens:.0f} live tokens, the step has {totals.live_tokens}",
            "merge the metrics of every micro-batch and rank exactly once",
        )
    ess_of = {
        name.removesuffix("_square_sum"): values.pop(name)
        for name in list(values)
        if name.endswith("_square_sum")
    }
    result = {name: values.pop(f"{name}_sum") for name in ("policy_loss", "kl_loss")}
    result["loss"] = result["policy_loss"] + result["kl_loss"]
    for ratio, squares in ess_of.items():
        ess = _share(values[f"{ratio}_sum"] ** 2, tokens * squares)
        result["ess" if ratio == "importance_ratio" else "sampler_ess"] = ess
    for name, value in values.items():
        result |= _rate(name, value, tokens)
    result["effective_token_fraction"] = _share(totals.live_tokens, totals.generated_tokens)
    result["live_tokens"] = float(totals.live_tokens)
    result["generated_tokens"] = float(totals.generated_tokens)
    result["live_rollouts"] = float(totals.live_rollouts)
    result["sampled_rollouts"] = float(totals.sampled_rollouts)
    result["live_prompts"] = float(totals.live_prompts)
    return result


def _clip_counts(ratio: Tensor, advantages: Tensor, config: ResolvedLoss) -> Metrics:
    """Returns counts of tokens whose clipped branch is active, given the advantage's sign."""
    positive, negative = advantages > 0, advantages < 0
    if config.surrogate == "weighted":
        cap = torch.inf if config.ratio_cap is None else config.ratio_cap
        high = (ratio > cap) & (positive | negative)
        low = torch.zeros_like(high)
    else:
        high = positive & (ratio > 1.0 + (config.clip_high or 0.0))
        low = negative & (ratio < 1.0 - (config.clip_low or 0.0))
    bound = torch.inf if config.dual_clip is None else config.dual_clip
    dual = negative & (ratio > bound)
    active = high | low | dual
    return {
        "clip_fraction_count": _count(active),
        "clip_fraction_high_count": _count(high),
        "clip_fraction_low_count": _count(low),
        "clip_fraction_dual_count": _count(dual),
        "clip_fraction_positive_count": _count(active & positive),
        "clip_fraction_negative_count": _count(active & negative),
    }


def _sampler_metrics(sampling_logprobs: Tensor, log_ratio: Tensor) -> Metrics:
    ratio = exp_with_tail(log_ratio.to(torch.float64), tail_nats(log_ratio.dtype))
    return {
        "sampler_missing_token_count": _count(~torch.isfinite(sampling_logprobs)),
        "sampler_ratio_sum": ratio.sum(),
        "sampler_ratio_square_sum": ratio.square().sum(),
        "sampler_ratio_max": _extreme(ratio, -torch.inf, torch.max),
        "sampler_ratio_min": _extreme(ratio, torch.inf, torch.min),
        "sampler_kl_k3_sum": _k3_sum(-log_ratio),
    }


def _k3_sum(gap: Tensor) -> Tensor:
    """Returns the sum of k3 of log-prob gaps (policy that sampled - the other), fp64."""
    exact = gap.to(torch.float64)
    return kl_estimate(exact, torch.zeros_like(exact), kind="k3", tail=tail_nats(gap.dtype)).sum()


def _count(flags: Tensor) -> Tensor:
    return flags.sum().to(torch.float64)


def _extreme(values: Tensor, empty: float, pick: Callable[[Tensor], Tensor]) -> Tensor:
    return pick(torch.cat([values, values.new_tensor([empty])]))


def _merge(name: str, left: Tensor, right: Tensor) -> Tensor:
    if name.endswith("_max"):
        return torch.maximum(left, right)
    return torch.minimum(left, right) if name.endswith("_min") else left + right


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _rate(name: str, value: float, tokens: float) -> dict[str, float]:
    """Returns a finished metric under its public name."""
    if name.endswith(("_max", "_min")):
        return {name: value if tokens else 0.0}
    if name.endswith("_token_count"):
        return {name.replace("_token_count", "_token_fraction"): _share(value, tokens)}
    if name.endswith("_count"):
        return {name.removesuffix("_count"): _share(value, tokens)}
    stem = name.removesuffix("_sum")
    suffix = "_mean" if stem.endswith("_ratio") else ""
    return {stem + suffix: _share(value, tokens)}
