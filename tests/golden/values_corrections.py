"""Sampler correction, off-policy mask and metrics: values worked out by hand."""

import math
from types import SimpleNamespace

import torch
from objective_values import NAN, close, f64, golden, loss_of
from torch import Tensor

from grpo_core.objective.config import KlConfig, LossConfig
from grpo_core.objective.presets import resolve_loss


def corrected(o: SimpleNamespace, gaps: list[float], **config: object) -> Tensor:
    """Returns the correction of a row's tokens, old - sampling log-probs given."""
    sampling = f64([[-1.0 - gap for gap in gaps]])
    count = len(gaps)
    *_, weights = loss_of(
        o,
        LossConfig(method="dapo", **config),
        [[0.0] * count],
        [1.0],
        sampling_logprobs=sampling,
    )
    return weights[0] * count


@golden
def sampler_corrections(o: SimpleNamespace) -> None:
    e = math.exp
    close(corrected(o, [0.1, 1.0], sampler_correction="none"), [1.0, 1.0])
    close(corrected(o, [0.1, 1.0], sampler_correction="token_truncated"), [e(0.1), 2.0])
    close(corrected(o, [0.1, 1.0], sampler_correction="token_masked"), [e(0.1), 0.0])
    close(corrected(o, [0.1, -1.0], sampler_correction="token_masked"), [e(0.1), 0.0])
    five = {"sampler_correction": "token_masked", "correction_cap": 5.0}
    close(corrected(o, [0.1, 1.0], **five), [e(0.1), e(1.0)])
    geometric = {"sampler_correction": "geometric_mask"}
    close(corrected(o, [0.3, -0.31], **geometric), [1.0, 1.0])
    close(corrected(o, [0.3, -0.2], **geometric), [0.0, 0.0])
    close(corrected(o, [-0.3, 0.2], **geometric), [0.0, 0.0])
    close(corrected(o, [0.5, 0.5], sampler_correction="product_mask"), [1.0, 1.0])
    close(corrected(o, [0.6, 0.6], sampler_correction="product_mask"), [0.0, 0.0])
    close(corrected(o, [-0.6, -0.6], sampler_correction="product_mask"), [0.0, 0.0])


@golden
def products_grow_with_length(o: SimpleNamespace) -> None:
    # 0.012 nats a token over 40 tokens: geometric mean 1.01207, product 1.61607.
    long = [0.012] * 40
    for kind, bound, kept in (
        ("product_mask", 1.62, 1.0),
        ("product_mask", 1.61, 0.0),
        ("geometric_mask", 1.0121, 1.0),
        ("geometric_mask", 1.012, 0.0),
    ):
        actual = corrected(o, long, sampler_correction=kind, correction_cap=bound)
        close(actual, [kept] * 40)


@golden
def correction_multiplies_the_policy_term(o: SimpleNamespace) -> None:
    config = LossConfig(method="dapo", sampler_correction="token_truncated")
    loss, gradient, metrics, _ = loss_of(
        o, config, [[0.0, 0.0]], [1.0], sampling_logprobs=f64([[-1.5, -3.0]])
    )
    close(loss, -(math.exp(0.5) + 2.0) / 2)
    close(gradient, [[-math.exp(0.5) / 2, -1.0]])
    close(metrics["sampler_ratio_max"], math.exp(2.0))
    close(metrics["sampler_ratio_min"], math.exp(0.5))
    k3 = (math.exp(0.5) - 1.5 + math.exp(2.0) - 3.0) / 2
    close(metrics["sampler_kl_k3"], k3)


@golden
def corrected_away_tokens_are_counted(o: SimpleNamespace) -> None:
    config = LossConfig(sampler_correction="token_masked")
    sampling = f64([[-1.1, -2.0, -1.0, -0.9]])
    metrics = loss_of(o, config, [[0.0] * 4], [1.0], sampling_logprobs=sampling)[2]
    close(metrics["corrected_away_token_fraction"], 0.25)


@golden
def sampler_nulls_count_as_one(o: SimpleNamespace) -> None:
    config = LossConfig(method="dapo", sampler_correction="geometric_mask")
    sampling = f64([[-1.0, NAN, float("-inf")]])
    loss, _, metrics, _ = loss_of(o, config, [[0.0] * 3], [1.0], sampling_logprobs=sampling)
    close(loss, -1.0)
    close(metrics["sampler_missing_token_fraction"], 2 / 3)
    close(metrics["sampler_ratio_mean"], 1.0)


@golden
def off_policy_rollouts_leave(o: SimpleNamespace) -> None:
    # Mean log(old / current): 0.2 in both rows; only the negative one is masked.
    config = LossConfig(method="grpo", off_policy_mask_nats=0.15)
    gaps = [[-0.1, -0.3], [-0.1, -0.3]]
    loss, _, metrics, weights = loss_of(o, config, gaps, [1.0, -1.0])
    close(weights, [[0.25, 0.25], [0.0, 0.0]])
    close(loss, -0.25 * (math.exp(-0.1) + math.exp(-0.3)))
    close(metrics["corrected_away_token_fraction"], 0.5)
    stays = LossConfig(method="grpo", off_policy_mask_nats=0.25)
    close(loss_of(o, stays, gaps, [1.0, -1.0])[3], [[0.25, 0.25]] * 2)
    # The sampler's log-probs are the behaviour where they are known: 0.2 + 0.1 - 0.2.
    sampling = f64([[-1.1, -1.1], [-1.1, -1.1]])
    moved = loss_of(o, config, gaps, [1.0, -1.0], sampling_logprobs=sampling + 0.2)[3]
    close(moved, [[0.25, 0.25], [0.0, 0.0]])
    close(loss_of(o, config, gaps, [1.0, -1.0], sampling_logprobs=sampling)[3], [[0.25] * 2] * 2)


@golden
def fractions_of_clipped_tokens(o: SimpleNamespace) -> None:
    logs = [[math.log(r) for r in (1.5, 0.5, 4.0, 0.5, 1.5, 1.0, 0.9, 1.1)]]
    advantages = [[1.0, 1.0, -1.0, -1.0, 0.0, 1.0, -1.0, -1.0]]
    config = LossConfig(method="dapo", dual_clip=3.0)
    _, _, metrics, _ = loss_of(o, config, logs, advantages)
    close(metrics["clip_fraction"], 3 / 8)
    close(metrics["clip_fraction_high"], 1 / 8)
    close(metrics["clip_fraction_low"], 1 / 8)
    close(metrics["clip_fraction_dual"], 1 / 8)
    close(metrics["clip_fraction_positive"], 1 / 8)
    close(metrics["clip_fraction_negative"], 2 / 8)
    close(metrics["advantage_token_fraction"], 7 / 8)
    close(metrics["importance_ratio_mean"], 11.0 / 8)
    close(metrics["importance_ratio_max"], 4.0)
    close(metrics["importance_ratio_min"], 0.5)
    squares = 2.25 + 0.25 + 16.0 + 0.25 + 2.25 + 1.0 + 0.81 + 1.21
    close(metrics["ess"], 121.0 / (8 * squares))
    capped = [[math.log(r) for r in (6.0, 6.0, 6.0, 4.0)]]
    _, _, metrics, _ = loss_of(o, LossConfig(method="cispo"), capped, [[1.0, -1.0, 0.0, 1.0]])
    close(metrics["clip_fraction"], 0.5)
    close(metrics["clip_fraction_high"], 0.5)
    close(metrics["clip_fraction_low"], 0.0)
    close(metrics["clip_fraction_positive"], 0.25)
    close(metrics["clip_fraction_negative"], 0.25)


@golden
def metrics_of_a_split_step(o: SimpleNamespace) -> None:
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]]) == 1
    totals = o.batch.step_totals(mask, generated_tokens=8)
    logs = f64([[0.2, -0.1, NAN], [0.4, 0.0, 0.1]])
    old = torch.zeros_like(logs)
    parts = []
    for row in (slice(0, 1), slice(1, 2)):
        batch = o.batch.LossBatch(
            logs[row],
            old[row],
            f64([1.0]),
            mask[row],
            totals,
            entropy=f64([[0.5, 0.7, 0.9]]),
            sampling_entropy=f64([[0.1, 0.2, 0.3]]),
        )
        parts.append(o.losses.policy_loss(batch, LossConfig(method="dapo")).metrics)
    metrics = o.metrics.finalize_metrics(o.metrics.merge_metrics(parts), totals)
    close(metrics["importance_ratio_max"], math.exp(0.4))
    close(metrics["importance_ratio_min"], math.exp(-0.1))
    close(metrics["importance_ratio_mean"], sum(map(math.exp, (0.2, -0.1, 0.4, 0.0, 0.1))) / 5)
    old_kl = sum(math.exp(x) - 1 - x for x in (0.2, -0.1, 0.4, 0.0, 0.1)) / 5
    close(metrics["old_kl_k3"], old_kl)
    close(metrics["policy_entropy_nats"], (1.2 + 2.1) / 5)
    close(metrics["sampling_entropy_nats"], (0.3 + 0.6) / 5)
    close(metrics["effective_token_fraction"], 5 / 8)
    clipped = (math.exp(0.2) + math.exp(-0.1) + 1.28 + 1.0 + math.exp(0.1)) / 5
    close((metrics["policy_loss"], metrics["loss"]), (-clipped, -clipped))
    assert metrics["live_rollouts"] == 2.0
    over_ranks = o.metrics.reduce_metrics(
        parts[0], reduce_sum=lambda v: 2 * v, reduce_max=lambda v: v + 1.0
    )
    close(over_ranks["live_token_count"], 4.0)
    close(over_ranks["importance_ratio_max"], math.exp(0.2) + 1.0)
    close(over_ranks["importance_ratio_min"], math.exp(-0.1) - 1.0)


@golden
def metrics_of_tails(o: SimpleNamespace) -> None:
    mask = torch.ones((1, 4), dtype=torch.bool)
    batch = o.batch.LossBatch.whole_step(
        torch.tensor([[31.0, 0.0, -40.0, 0.0]]),
        torch.zeros((1, 4)),
        torch.tensor([1.0]),
        mask,
        ref_logprobs=torch.tensor([[31.0, 40.0, -40.0, 0.0]]),
    )
    output = o.losses.policy_loss(batch, LossConfig(method="dapo"))
    metrics = o.metrics.finalize_metrics(output.metrics, batch.totals)
    close(metrics["tail_token_fraction"], 0.25)
    close(metrics["ref_tail_token_fraction"], 0.25)
    close(metrics["nonfinite_token_fraction"], 0.0)
    close(metrics["importance_ratio_max"] / math.exp(30.0), 2.0, 1e-5)


@golden
def only_the_current_policy_gets_a_gradient(o: SimpleNamespace) -> None:
    names = ("logprobs", "old_logprobs", "advantages", "ref_logprobs", "sampling_logprobs")
    tensors = {name: f64([[-1.0, -1.5]]).requires_grad_() for name in names}
    mask = torch.ones((1, 2), dtype=torch.bool)
    batch = o.batch.LossBatch(**tensors, completion_mask=mask, totals=o.batch.step_totals(mask))
    kl = KlConfig(place="loss", beta=1.0)
    for correction in ("token_truncated", "token_masked", "geometric_mask"):
        config = LossConfig(sampler_correction=correction, off_policy_mask_nats=0.1)
        output = o.losses.policy_loss(batch, config, kl=kl)
        assert not output.token_weights.requires_grad
        assert not any(value.requires_grad for value in output.metrics.values())
        output.loss.backward()
        assert [name for name in names if tensors[name].grad is not None] == ["logprobs"]
    old, ref = tensors["old_logprobs"], tensors["ref_logprobs"]
    assert not o.kl.kl_reward_penalty(old, ref, mask, kind="k1", beta=1.0).requires_grad


@golden
def means_of_rows(o: SimpleNamespace) -> None:
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]]) == 1
    values = f64([[1.0, 4.0, NAN], [NAN, 1.0, 1.0]]).requires_grad_()
    means = o.aggregation.row_mean(values, mask)
    close(means.detach(), [2.5, 0.0])
    means.sum().backward()
    close(values.grad, [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])


@golden
def corrections_ignore_masked_tokens(o: SimpleNamespace) -> None:
    mask, gaps = torch.tensor([[1, 1, 0]]) == 1, f64([[0.3, -0.3, 9.0]]).requires_grad_()
    for kind in ("geometric_mask", "product_mask", "token_truncated"):
        config = resolve_loss(LossConfig(sampler_correction=kind))
        weights = o.ratios.sampler_weights(gaps, mask, config)
        assert not weights.requires_grad
        first = math.exp(0.3) if kind == "token_truncated" else 1.0
        close(weights[0, 0], first)
    config = resolve_loss(LossConfig(off_policy_mask_nats=0.1))
    weights = o.ratios.off_policy_weights(gaps, f64([[-1.0] * 3]), mask, config)
    close(weights, [[1.0] * 3])
    assert not weights.requires_grad
