"""Values worked out by hand for every part of the objective.

Each check takes the objective's modules, so that the mutation tests can hand it broken ones.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from grpo_core.errors import DataContractError
from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig, MaskConfig
from grpo_core.objective.presets import resolve_loss

Check = Callable[[SimpleNamespace], None]
CHECKS: list[Check] = []

NAN = float("nan")
SQRT2 = math.sqrt(2.0)


def golden(check: Check) -> Check:
    CHECKS.append(check)
    return check


def close(actual: object, expected: object, tolerance: float = 1e-12) -> None:
    """Asserts equal shape and values; NaN equals nothing."""
    left = torch.as_tensor(actual, dtype=torch.float64)
    right = torch.as_tensor(expected, dtype=torch.float64)
    assert left.shape == right.shape, (left.shape, right.shape)
    assert bool(((left - right).abs() <= tolerance).all()), (left, right)


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def refused(call: Callable[..., object], *arguments: object, **options: object) -> None:
    """Asserts that a call raises DataContractError."""
    try:
        call(*arguments, **options)
    except DataContractError:
        return
    raise AssertionError(f"accepted {arguments} {options}")


def loss_of(
    o: SimpleNamespace,
    config: LossConfig,
    log_ratio: list[list[float]],
    advantages: object,
    mask: list[list[int]] | None = None,
    *,
    kl: KlConfig | None = None,
    beta: float | None = None,
    old: float = -1.0,
    **optional: Tensor,
) -> tuple[float, Tensor, dict[str, float], Tensor]:
    """Returns loss, gradient to logprobs, metrics and token weights of a one-batch step."""
    gaps = f64(log_ratio)
    old_logprobs = torch.full_like(gaps, old)
    logprobs = (old_logprobs + gaps).requires_grad_()
    live = torch.ones_like(gaps, dtype=torch.bool) if mask is None else torch.tensor(mask) == 1
    batch = o.batch.LossBatch.whole_step(logprobs, old_logprobs, f64(advantages), live, **optional)
    output = o.losses.policy_loss(batch, config, kl=kl, beta=beta)
    output.loss.backward()
    metrics = o.metrics.finalize_metrics(output.metrics, batch.totals)
    return float(output.loss.detach()), logprobs.grad, metrics, output.token_weights


# ---- advantages


@golden
def one_right_of_eight(o: SimpleNamespace) -> None:
    rewards = [[1.0, 0, 0, 0, 0, 0, 0, 0]]
    group = o.advantages.group_advantages
    close(group(rewards, eps=0.0)[0, 0], 2.4748737341529163)
    close(group(rewards, eps=1e-4)[0, 0], 0.875 / (0.35355339059327373 + 1e-4))
    close(group(rewards, std="population", eps=0.0)[0, 0], 2.6457513110645903)
    close(group(rewards, std="none")[0], [0.875] + [-0.125] * 7)
    close(group(rewards, std="none", baseline="leave_one_out")[0], [1.0] + [-1 / 7] * 7)


@golden
def deviation_and_eps(o: SimpleNamespace) -> None:
    rewards, group = [[1.0, 0.0, 0.0, 0.0]], o.advantages.group_advantages
    close(group(rewards, eps=0.0)[0], [1.5, -0.5, -0.5, -0.5])
    close(group(rewards, eps=1e-4)[0], [1.4997000599880024] + [-0.4999000199960008] * 3)
    close(group(rewards)[0], [1.499997000006] + [-0.499999000002] * 3)
    low = -0.5773502691896258
    close(group(rewards, std="population", eps=0.0)[0], [1.7320508075688774, low, low, low])
    close(group([[1.0, 0.0]], eps=0.0)[0], [0.7071067811865475, -0.7071067811865475])


@golden
def nulls_leave_the_baseline(o: SimpleNamespace) -> None:
    group = o.advantages.group_advantages
    expected = [1.1547005383792515, 0.0, -0.5773502691896256, -0.5773502691896256]
    close(group([[1.0, None, 0.0, 0.0]], eps=0.0)[0], expected)
    close(group(f64([[1.0, NAN, 0.0, 0.0]]), eps=0.0)[0], expected)
    close(group([[1.0, None], [None, None]])[0], [0.0, 0.0])
    close(group([[1.0, None], [None, None]], std="none")[1], [0.0, 0.0])
    close(
        group([[1.0, None, 0.0, 0.0]], std="none", baseline="leave_one_out")[0],
        [1.0, 0.0, -0.5, -0.5],
    )


@golden
def flat_groups_get_zero(o: SimpleNamespace) -> None:
    group = o.advantages.group_advantages
    close(group([[1.0, 1.0, 1.0, 1.0]], eps=0.0)[0], [0.0] * 4)
    close(group([[0.1 + 0.2, 0.3, 0.3, 0.3]], eps=0.0)[0], [0.0] * 4)
    close(group([[0.1, 0.1, 0.1]], eps=0.0)[0], [0.0] * 3)
    close(group([[3e-9, 0.0]], eps=0.0)[0], [1 / SQRT2, -1 / SQRT2])


@golden
def deviation_of_the_batch(o: SimpleNamespace) -> None:
    actual = o.advantages.group_advantages([[1.0, 0], [1, 1]], std_scope="batch", eps=0.0)
    close(actual, [[1.0, -1.0], [0.0, 0.0]])


@golden
def format_reward_alone_is_scaled_up(o: SimpleNamespace) -> None:
    actual = o.advantages.group_advantages([[0.1, 0.0, 0.1, 0.0]], eps=0.0)
    close(actual[0], [0.8660254037844386, -0.8660254037844386] * 2, 1e-9)


@golden
def confidence_weights(o: SimpleNamespace) -> None:
    # W = 2.5, mean 0.4; squares 0.36 + 0.16 + 0.08 = 0.6; sample freedom 2.5 - 2.25 / 2.5 = 1.6.
    rewards, weights = [[1.0, 0.0, 0.0]], f64([[1.0, 1.0, 0.5]])
    group = o.advantages.group_advantages
    plain = f64([0.6, -0.4, -0.2])
    close(group(rewards, std="none", weights=weights)[0], plain)
    close(group(rewards, eps=0.0, weights=weights)[0], plain / math.sqrt(0.375))
    close(group(rewards, std="population", eps=0.0, weights=weights)[0], plain / math.sqrt(0.24))
    loo = group(rewards, std="none", baseline="leave_one_out", weights=weights)[0]
    close(loo, [1.0, -1.0 / 1.5, -0.25])
    null = group([[1.0, None, 0.0]], std="none", weights=f64([[1.0, 1.0, 1.0]]))
    close(null[0], [0.5, 0.0, -0.5])
    alone = group([[1.0, 0.0]], std="none", weights=f64([[1.0, 0.0]]))
    close(alone[0], [0.0, 0.0])
    silent = f64([[1.0, 0.0, 1.0, 1.0]])
    expected = group([[1.0, None, 0.0, 0.0]], eps=0.0)
    close(group([[1.0, 7.0, 0.0, 0.0]], eps=0.0, weights=silent), expected)


@golden
def bands_bounds_and_baselines(o: SimpleNamespace) -> None:
    group = o.advantages.group_advantages
    banded = group([[1.0, 0.5, 0.4, 0.1]], std="none", tolerance_band=0.15)
    close(banded[0], [0.5, 0.0, 0.0, -0.4])
    close(group([[30.0, 0.0]], std="none", clip=10.0)[0], [10.0, -10.0])
    close(group([[30.0, 0.0]], std="none")[0], [15.0, -15.0])
    value = f64([[0.75, 0.25]])
    close(group([[1.0, 0.0]], std="none", baseline=value)[0], [0.25, -0.25])
    close(group([[1.0, 1.0]], std="none", baseline=value)[0], [0.25, 0.75])
    close(group([[1.0, 1.0]], baseline=value)[0], [0.0, 0.0])
    ema = group([[1.0, 0.0]], std="none", ema_baseline=f64([0.8]), ema_weight=0.25)
    close(ema[0], [0.425, -0.575])
    unseen = group([[1.0, 0.0]], std="none", ema_baseline=f64([NAN]), ema_weight=0.25)
    close(unseen[0], [0.5, -0.5])


@golden
def winsorised_rewards(o: SimpleNamespace) -> None:
    cut = o.winsorise.winsorise
    close(cut(f64([[0.0, 1, 2, 100]]), low=0.0, high=0.75)[0], [0.0, 1.0, 2.0, 26.5])
    close(cut(f64([[0.0, 1, 2, 100]]), low=0.25, high=1.0)[0], [0.75, 1.0, 2.0, 100.0])
    two = cut(f64([[0.0, 4.0], [0.0, 400.0]]), low=0.0, high=0.5, sources=["a", "b"])
    close(two, [[0.0, 2.0], [0.0, 200.0]])
    one = cut(f64([[0.0, 4.0], [NAN, 8.0]]), low=0.0, high=0.5)
    close(one.nan_to_num(-1.0), [[0.0, 4.0], [-1.0, 4.0]])


@golden
def running_mean_rewards(o: SimpleNamespace) -> None:
    rewards = f64([[1.0, 0.0], [1.0, NAN], [NAN, NAN]])
    names = ["a", "b", "c"]
    state = o.winsorise.updated_means({"a": 0.1}, rewards, names, decay=0.75)
    close([state["a"], state["b"]], [0.75 * 0.1 + 0.25 * 0.5, 1.0])
    assert "c" not in state
    assert o.winsorise.updated_means({"c": 0.3}, rewards, names, decay=0.75)["c"] == 0.3
    means = o.winsorise.running_means(state, ["b", "a", "c"])
    close(means[:2], [1.0, 0.2])
    assert bool(means[2].isnan())


@golden
def configured_chain(o: SimpleNamespace) -> None:
    rewards = [[0.0, 1.0, 2.0, 100.0]]
    run = o.advantages.configured_advantages
    loss = LossConfig(method="dr_grpo", constant_length_tokens=8)
    config = AdvantageConfig(winsorise_high=0.75, clip=10.0)
    close(run(rewards, config, loss)[0], [-7.375, -6.375, -5.375, 10.0])
    close(run([[1.0, 0, 0, 0]], AdvantageConfig(eps=0.0), LossConfig())[0, 0], 1.5)
    smooth = AdvantageConfig(std="none", ema_weight=0.25)
    close(run([[1.0, 0.0]], smooth, LossConfig(), ema_baseline=f64([0.8]))[0], [0.425, -0.575])
    close(run([[1.0, 0.0]], smooth, LossConfig())[0], [0.5, -0.5])
    outside = run([[1.0, 1.0]], smooth, LossConfig(), baseline=f64([[0.5, 0.0]]))
    close(outside[0], [0.5, 1.0])


@golden
def groups_with_signal(o: SimpleNamespace) -> None:
    rewards = [[1.0, 0.0], [1.0, 1.0], [None, 0.0], [None, None], [0.3, 0.30001]]
    live = o.advantages.live_groups
    assert live(rewards).tolist() == [True, False, False, False, True]
    assert live(rewards, tolerance=1e-3).tolist() == [True, False, False, False, False]
    three = [[0.5, 0.5, None], [0.5, 0.4, None]]
    assert live(three).tolist() == [False, True]


# ---- aggregation and accumulation

ROWS = [[1, 0, 0], [1, 1, 1]]
LOSSES = [[-1.0, 0, 0], [-3.0, -3.0, -3.0]]
ZEROS = [[0.0] * 3, [0.0] * 3]


def aggregated(o: SimpleNamespace, groups: list[int], **config: object) -> float:
    return loss_of(
        o,
        LossConfig(method="grpo", **config),
        ZEROS,
        LOSSES,
        ROWS,
        group_index=torch.tensor(groups),
    )[0]


@golden
def four_aggregations(o: SimpleNamespace) -> None:
    close(aggregated(o, [0, 1], aggregation="token_mean"), 2.5)
    close(aggregated(o, [0, 1]), 2.0)
    close(aggregated(o, [0, 1], aggregation="constant_length", constant_length_tokens=4), 1.25)
    close(aggregated(o, [0, 0], aggregation="prompt_mean"), 2.5)
    close(aggregated(o, [0, 1], aggregation="prompt_mean"), 2.0)


@golden
def weights_of_tokens(o: SimpleNamespace) -> None:
    config = LossConfig(method="grpo")
    *_, weights = loss_of(o, config, ZEROS, LOSSES, ROWS)
    close(weights, [[0.5, 0.0, 0.0], [1 / 6, 1 / 6, 1 / 6]])


@golden
def micro_batches_add_up(o: SimpleNamespace) -> None:
    masks = torch.tensor(ROWS) == 1
    for name, expected in (("token_mean", 2.5), ("sequence_mean", 2.0), ("prompt_mean", 2.0)):
        config = LossConfig(method="grpo", aggregation=name)
        groups = torch.tensor([0, 1])
        totals = o.batch.step_totals([masks[:1], masks[1:]], group_index=[groups[:1], groups[1:]])
        total = 0.0
        for row in (slice(0, 1), slice(1, 2)):
            zeros = torch.zeros((1, 3), dtype=torch.float64)
            batch = o.batch.LossBatch(
                zeros, zeros, f64(LOSSES)[row], masks[row], totals, group_index=groups[row]
            )
            total += float(o.losses.policy_loss(batch, config).loss)
        close(total, expected)


@golden
def totals_over_ranks(o: SimpleNamespace) -> None:
    mask = torch.tensor([[1, 1], [0, 0], [1, 0]]) == 1
    totals = o.batch.step_totals(
        mask,
        group_index=torch.tensor([0, 0, 2]),
        num_groups=3,
        generated_tokens=5,
        sampled_rollouts=4,
        reduce_sum=lambda packed: 2 * packed,
    )
    close(totals.prompt_tokens, [4, 0, 2])
    counts = (totals.live_tokens, totals.generated_tokens, totals.live_rollouts)
    assert counts == (6, 10, 4)
    assert (totals.sampled_rollouts, totals.live_prompts) == (8, 2)
    alone = o.batch.step_totals(mask)
    assert (alone.generated_tokens, alone.sampled_rollouts, alone.live_prompts) == (3, 3, 2)


@golden
def dropped_groups_do_not_dilute(o: SimpleNamespace) -> None:
    config = LossConfig(method="dapo")
    advantages = [*LOSSES, [0.0] * 3, [0.0] * 3]
    zeros = [[0.0] * 3] * 4
    dead = [[1, 1, 0], [1, 1, 0]]
    close(loss_of(o, config, zeros, advantages, ROWS + dead)[0], 1.25)
    close(loss_of(o, config, zeros, advantages, ROWS + [[0] * 3] * 2)[0], 2.5)


@golden
def accumulation_window(o: SimpleNamespace) -> None:
    # Two micro-batches of ten tokens with loss 1 are one step: 1.0, neither halved nor quartered.
    masks = [torch.ones((1, 10), dtype=torch.bool)] * 2
    totals = o.batch.step_totals(masks)
    zeros = torch.zeros((1, 10), dtype=torch.float64)
    batch = o.batch.LossBatch(zeros, zeros, f64([-1.0]), masks[0], totals)
    config = LossConfig(method="dapo")
    close(2 * float(o.losses.policy_loss(batch, config).loss), 1.0)


@golden
def zero_loss_with_gradient(o: SimpleNamespace) -> None:
    mask = [[1, 0, 0]] + [[1, 1, 1]] * 3
    zeros = [[0.0] * 3] * 4
    advantages = [1.5, -0.5, -0.5, -0.5]
    loss, gradient, *_ = loss_of(o, LossConfig(method="grpo"), zeros, advantages, mask)
    close(loss, 0.0)
    close(gradient, [[-1.5 / 4, 0, 0]] + [[0.5 / 12] * 3] * 3)
    close(loss_of(o, LossConfig(method="dapo"), zeros, advantages, mask)[0], 0.3)


# ---- ratios and clipping


def one_token(
    o: SimpleNamespace, ratio: float, advantage: float, **config: object
) -> tuple[float, float]:
    """Returns loss and gradient of a single token at a ratio."""
    loss, gradient, *_ = loss_of(
        o, LossConfig(**{"method": "dapo", **config}), [[math.log(ratio)]], [advantage]
    )
    return loss, float(gradient)


@golden
def clip_higher(o: SimpleNamespace) -> None:
    close(one_token(o, 1.25, 1.0), (-1.25, -1.25))
    close(one_token(o, 1.5, 1.0), (-1.28, 0.0))
    close(one_token(o, 1.5, 1.0, method="grpo"), (-1.2, 0.0))
    close(one_token(o, 1.5, -1.0), (1.5, 1.5))
    close(one_token(o, 0.7, -1.0), (0.8, 0.0))
    close(one_token(o, 0.5, -1.0), (0.8, 0.0))
    close(one_token(o, 0.7, 1.0), (-0.7, -0.7))
    close(one_token(o, 0.7, -1.0, clip_low=0.4), (0.7, 0.7))


@golden
def dual_clip(o: SimpleNamespace) -> None:
    close(one_token(o, 5.0, -1.0), (5.0, 5.0), 1e-9)
    close(one_token(o, 5.0, -1.0, dual_clip=3.0), (3.0, 0.0))
    close(one_token(o, 10.0, -1.0, dual_clip=3.0), (3.0, 0.0))
    close(one_token(o, 10.0, -2.0, dual_clip=3.0), (6.0, 0.0))
    close(one_token(o, 2.9, -1.0, dual_clip=3.0), (2.9, 2.9))
    close(one_token(o, 10.0, 1.0, dual_clip=3.0), (-1.28, 0.0))
    close(one_token(o, 0.5, -1.0, dual_clip=3.0), (0.8, 0.0))
    close(one_token(o, 0.5, 1.0, dual_clip=3.0), (-0.5, -0.5))


@golden
def cispo_weight_is_absolute(o: SimpleNamespace) -> None:
    # old = -1: loss = -min(r, cap) A (log r - 1), gradient -min(r, cap) A.
    close(one_token(o, 1.0, 1.0, method="cispo"), (1.0, -1.0))
    close(one_token(o, 4.0, 2.0, method="cispo"), (-8.0 * (math.log(4.0) - 1.0), -8.0))
    close(one_token(o, 10.0, 1.0, method="cispo"), (-5.0 * (math.log(10.0) - 1.0), -5.0))
    close(one_token(o, 0.1, -1.0, method="cispo")[1], 0.1)
    close(one_token(o, 1.0, 1.0, method="cispo", ratio_cap=0.2)[1], -0.2)


@golden
def gspo_is_a_geometric_mean(o: SimpleNamespace) -> None:
    # Sum of log-ratios 0.48 over 40 tokens: s = e^0.012; each token moves s by s / 40.
    gaps, s = [[0.024] * 20 + [0.0] * 20], math.exp(0.012)
    loss, gradient, *_ = loss_of(o, LossConfig(method="gspo"), gaps, [1.0])
    close(loss, -1.0004)
    close(gradient, [[0.0] * 40])
    wide = LossConfig(method="gspo", clip_low=0.2, clip_high=0.2)
    loss, gradient, *_ = loss_of(o, wide, gaps, [1.0])
    close(loss, -1.0120722888660778)
    close(gradient, [[-s / 40] * 40])
    loss, gradient, *_ = loss_of(o, LossConfig(method="gspo"), gaps, [-1.0])
    close((loss, float(gradient[0, 0])), (s, s / 40))


@golden
def gspo_ignores_masked_tokens(o: SimpleNamespace) -> None:
    config = LossConfig(method="gspo", clip_low=0.5, clip_high=0.5)
    gaps, mask = [[0.1, 0.3, 9.0]], [[1, 1, 0]]
    loss, gradient, *_ = loss_of(o, config, gaps, [1.0], mask)
    close(loss, -math.exp(0.2))
    close(gradient, [[-math.exp(0.2) / 2, -math.exp(0.2) / 2, 0.0]])


@golden
def gspo_token_has_own_gradients(o: SimpleNamespace) -> None:
    config = LossConfig(method="gspo_token", clip_low=0.5, clip_high=0.5)
    s = math.exp(0.2)
    loss, gradient, *_ = loss_of(o, config, [[0.1, 0.3]], [[1.0, -3.0]])
    close(loss, s)
    close(gradient, [[-s / 2, 3 * s / 2]])


@golden
def ratios_have_a_tail(o: SimpleNamespace) -> None:
    high = torch.tensor([31.0, -200.0, 30.0], dtype=torch.float32, requires_grad=True)
    value = o.ratios.exp_with_tail(high)
    value.sum().backward()
    e30 = math.exp(30.0)
    close(value.detach() / e30, [2.0, 0.0, 1.0], 1e-6)
    close(high.grad / e30, [1.0, 0.0, 1.0], 1e-6)
    close(o.ratios.exp_with_tail(f64([50.0])) / math.exp(50.0), [1.0])


# ---- sampler correction and off-policy mask


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


# ---- KL


@golden
def kl_estimators(o: SimpleNamespace) -> None:
    kl, one = o.kl.kl_estimate, f64([0.0])
    for gap, k1, k2, k3 in (
        (0.1, -0.1, 0.005, 0.005170918075647624),
        (-0.1, 0.1, 0.005, 0.004837418035959573),
        (-1.0, 1.0, 0.5, 0.36787944117144233),
        (3.0, -3.0, 4.5, 16.085536923187668),
    ):
        close(kl(one, one + gap, kind="k1"), [k1])
        close(kl(one, one + gap, kind="k2"), [k2])
        close(kl(one, one + gap, kind="k3"), [k3])
        close(kl(one, one + gap), [k3])
    close(kl(one, one + 25.0) / (math.exp(25.0) - 26.0), [1.0])
    close(kl(one, one + 3.0, tail=1.0), [3.0 * math.e - 4.0])


@golden
def kl_tail_keeps_value_and_gradient(o: SimpleNamespace) -> None:
    for gap, value, slope in (
        (3.0, 16.085536923187668, -19.085536923187668),
        (99.0, math.exp(30.0) * 70.0 - 100.0, -math.exp(30.0) + 1.0),
    ):
        logprobs = torch.tensor([-1.0 - gap], requires_grad=True)
        estimate = o.kl.kl_estimate(logprobs, torch.tensor([-1.0]))
        estimate.sum().backward()
        close(estimate.detach() / value, [1.0], 1e-5)
        close(logprobs.grad / slope, [1.0], 1e-5)


@golden
def kl_expectations(o: SimpleNamespace) -> None:
    p, ref = f64([0.7, 0.3]), f64([0.5, 0.5])
    mean = {
        kind: (p * o.kl.kl_estimate(p.log(), ref.log(), kind=kind)).sum()
        for kind in ("k1", "k2", "k3")
    }
    close(mean["k1"], 0.08228287850505178)
    close(mean["k3"], 0.0822828785050518)
    close(mean["k2"], 0.07876617079029555)


def kl_term(o: SimpleNamespace, gap: float, log_ratio: float = 0.0, **kl: object) -> list[float]:
    """Returns value and gradient of a single token's KL term at beta 2, advantage 0."""
    config = KlConfig(place="loss", beta=2.0, **kl)
    ref = f64([[-1.0 + log_ratio - gap]])
    loss, gradient, *_ = loss_of(
        o, LossConfig(method="dapo"), [[log_ratio]], [0.0], kl=config, ref_logprobs=ref
    )
    return [loss / 2.0, float(gradient) / 2.0]


@golden
def kl_in_the_loss(o: SimpleNamespace) -> None:
    # gap = logprobs - ref_logprobs = 0.1, so d = -0.1.
    k3, slope = 0.004837418035959573, 1.0 - math.exp(-0.1)
    close(kl_term(o, 0.1, kind="k1"), [0.1, 1.0])
    close(kl_term(o, 0.1, kind="k2"), [0.005, 0.1])
    close(kl_term(o, 0.1, kind="k3"), [k3, slope])
    close(kl_term(o, 0.1, kind="k3", gradient="k2"), [k3, 0.1])
    close(kl_term(o, 0.1, kind="k1", gradient="k2"), [0.1, 0.1])
    r = math.exp(0.2)
    close(kl_term(o, 0.1, 0.2, kind="k1", importance_corrected=True), [r * 0.1, r * 1.1])
    close(
        kl_term(o, 0.1, 0.2, kind="k3", gradient="k2", importance_corrected=True), [r * k3, r * 0.1]
    )


@golden
def kl_needs_its_place(o: SimpleNamespace) -> None:
    ref, config = f64([[-1.1]]), LossConfig(method="dapo")
    for kl, beta, expected in (
        (None, None, 0.0),
        (KlConfig(place="reward", beta=2.0), None, 0.0),
        (KlConfig(place="loss", beta=2.0, kind="k1"), None, 0.2),
        (KlConfig(place="loss", beta=2.0, kind="k1"), 3.0, 0.3),
    ):
        loss, _, metrics, _ = loss_of(o, config, [[0.0]], [0.0], kl=kl, beta=beta, ref_logprobs=ref)
        close((loss, metrics["kl_loss"], metrics["loss"]), (expected, expected, expected))
        close(metrics["ref_kl_k1"], 0.1)
        close(metrics["ref_kl_k3"], 0.004837418035959573)


@golden
def kl_weights_of_tokens(o: SimpleNamespace) -> None:
    kl = KlConfig(place="loss", beta=1.0, kind="k1")
    ref, weights = f64([[-1.1, -1.1]]), f64([[3.0, NAN]])
    loss, *_ = loss_of(
        o,
        LossConfig(method="dapo"),
        [[0.0, 0.0]],
        [0.0],
        [[1, 0]],
        kl=kl,
        ref_logprobs=ref,
        kl_token_weights=weights,
    )
    close(loss, 0.3)
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]) == 1
    ends = torch.tensor([[1, 0, 0, 1, 1], [0, 0, 0, 0, 0]]) == 1
    made = o.kl.kl_token_weights
    heavy = KlConfig(step_end_weight=2.0, conclusion_weight=3.0, conclusion_tokens=2)
    close(made(mask, heavy, ends), [[2.0, 1.0, 3.0, 6.0, 0.0], [3.0, 3.0, 0.0, 0.0, 0.0]])
    last = KlConfig(conclusion_weight=3.0, conclusion_tokens=1)
    close(made(mask, last), [[1.0, 1.0, 1.0, 3.0, 0.0], [1.0, 3.0, 0.0, 0.0, 0.0]])
    assert made(mask, KlConfig()) is None


@golden
def kl_in_the_reward(o: SimpleNamespace) -> None:
    old, ref = f64([[-1.0, -1.0], [-2.0, NAN]]), f64([[-1.5, -0.9], [-1.0, NAN]])
    mask = torch.tensor([[1, 1], [1, 0]]) == 1
    penalty = o.kl.kl_reward_penalty(old, ref, mask, kind="k1", beta=0.5)
    close(penalty, [0.5 * (0.5 - 0.1), -0.5])
    weights = f64([[2.0, 1.0], [1.0, NAN]])
    weighted = o.kl.kl_reward_penalty(old, ref, mask, kind="k1", beta=0.5, token_weights=weights)
    close(weighted, [0.5 * (1.0 - 0.1), -0.5])


@golden
def beta_over_a_run(o: SimpleNamespace) -> None:
    config = KlConfig(place="loss", beta=0.04, relax_start=0.5, relax_factor=0.25)
    beta = o.kl_control.scheduled_beta
    close([beta(config, p) for p in (0.0, 0.5, 0.75, 1.0)], [0.04, 0.04, 0.025, 0.01])
    constant = KlConfig(place="loss", beta=0.04)
    close([beta(constant, p) for p in (0.0, 1.0)], [0.04, 0.04])
    control = o.kl_control.start_control(config)
    after = o.kl_control.next_control(control, config, ref_kl_k3=9.0, progress=0.75)
    close((after.beta, after.ema), (0.025, 9.0))


@golden
def kl_budget(o: SimpleNamespace) -> None:
    budget = {"nats": 0.1, "ema_decay": 0.5, "beta_min": 0.03, "beta_max": 0.1}
    config = KlConfig(place="loss", beta=0.04, budget=budget)
    state = o.kl_control.start_control(config)
    close(state.beta, 0.04)
    seen = []
    for k3, progress in ((0.05, 0.2), (0.01, 0.4), (0.0, 0.6), (0.0, 0.8), (0.0, 0.9), (2.0, 1.0)):
        state = o.kl_control.next_control(state, config, ref_kl_k3=k3, progress=progress)
        seen.append((state.ema, state.beta))
    # EMA 0.05 > 0.02; 0.03 in [0.02, 0.04]; 0.015 < 0.03; 0.0075 < 0.04; held at the bounds.
    close([ema for ema, _ in seen], [0.05, 0.03, 0.015, 0.0075, 0.00375, 1.001875])
    close([b for _, b in seen], [0.06, 0.06, 0.04, 0.03, 0.03, 0.045])
    for _ in range(3):
        state = o.kl_control.next_control(state, config, ref_kl_k3=9.0, progress=1.0)
    close(state.beta, 0.1)


# ---- masks


@golden
def masks_by_length(o: SimpleNamespace) -> None:
    mask, lengths = o.masks.length_mask, torch.tensor([2, 0, 3])
    assert mask(lengths, 3).int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    left = mask(lengths, 3, side="left")
    assert left.int().tolist() == [[0, 1, 1], [0, 0, 0], [1, 1, 1]]
    for bad in ([-1, 2], [1, 4]):
        refused(mask, torch.tensor(bad), 3)
    ids = torch.tensor([[5, 6, 2, 2, 2], [5, 3, 7, 2, 0], [5, 6, 7, 8, 9]])
    ends = o.masks.until_eos_mask(ids, [2, 3])
    assert ends.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]


@golden
def truncation_is_masked_after_grouping(o: SimpleNamespace) -> None:
    # Prompts A and B, rewards [1, 0] each; A1 and B0 are truncated: no group is re-formed.
    advantages = o.advantages.group_advantages([[1.0, 0.0], [1.0, 0.0]], std="none").reshape(-1)
    generated = torch.ones((4, 2), dtype=torch.bool)
    truncated = torch.tensor([False, True, True, False])
    drop = o.masks.loss_masks(generated, MaskConfig(truncated="drop"), truncated=truncated)
    assert drop.completion_mask.int().tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]
    close(advantages, [0.5, -0.5, 0.5, -0.5])
    keep = o.masks.loss_masks(generated, MaskConfig(), truncated=truncated)
    assert bool(keep.completion_mask.all())
    live = o.masks.loss_masks(generated, MaskConfig(), live_rows=~truncated).completion_mask
    assert live.int().tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]


@golden
def spans_without_loss(o: SimpleNamespace) -> None:
    ids = torch.tensor([[7, 1, 2, 1, 2, 1, 2, 9], [5, 5, 5, 5, 5, 0, 0, 0]])
    generated = torch.tensor([[1] * 8, [1] * 5 + [0] * 3]) == 1
    marked = o.spans.repeated_ngram_mask(ids, generated, ngram_tokens=2, free_count=1)
    assert marked.int().tolist() == [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 0, 0, 0, 0]]
    loose = o.spans.repeated_ngram_mask(ids, generated, ngram_tokens=2, free_count=2)
    assert loose.int().tolist() == [[0, 0, 0, 0, 0, 1, 1, 0], [0] * 8]
    left = o.spans.repeated_ngram_mask(
        ids[1:].flip(1), generated[1:].flip(1), ngram_tokens=2, free_count=1
    )
    assert left.int().tolist() == [[0, 0, 0, 0, 0, 1, 1, 0]]


@golden
def spans_of_text(o: SimpleNamespace) -> None:
    pieces = [["So", " the", " answer", " is", ":", " 4"], ["x", "\ny", "", "z"]]
    generated = torch.tensor([[0, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0, 0]]) == 1
    inside = o.spans.template_span_mask(pieces, generated, [" the answer is", "", "is: "])
    assert inside.int().tolist() == [[0, 0, 1, 1, 1, 1, 0], [0] * 7]
    ends = o.spans.step_end_mask(pieces, generated)
    assert ends.int().tolist() == [[0, 0, 0, 0, 0, 0, 1], [0, 0, 1, 0, 1, 0, 0]]
    both = MaskConfig(repeat_ngram_tokens=2, repeat_free_count=1, template_spans=("So",))
    ids = torch.tensor([[0, 1, 2, 1, 2, 8, 9], [0, 1, 2, 3, 4, 0, 0]])
    masks = o.masks.loss_masks(generated, both, token_ids=ids, pieces=pieces)
    expected = [[0, 0, 1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 0, 0]]
    assert masks.completion_mask.int().tolist() == expected
    assert masks.sample_mask.int().tolist() == [[1, 0, 1, 0, 0, 1, 1], [1] * 7]


@golden
def padding_is_not_counted(o: SimpleNamespace) -> None:
    advantages = [[-1.0, -1, NAN, NAN], [-0.5, -0.5, -0.5, -0.5]]
    mask = [[1, 1, 0, 0], [1, 1, 1, 1]]
    zeros = [[0.0, 0, NAN, NAN], [0.0] * 4]
    loss, gradient, *_ = loss_of(o, LossConfig(method="dapo"), zeros, advantages, mask)
    close(loss, 4 / 6)
    close(gradient, [[1 / 6, 1 / 6, 0, 0], [0.5 / 6] * 4])


@golden
def masked_infinities_do_not_leak(o: SimpleNamespace) -> None:
    for method in ("dapo", "grpo", "gspo", "gspo_token", "cispo"):
        for junk in (1000.0, NAN, float("inf"), float("-inf")):
            loss, gradient, metrics, _ = loss_of(
                o,
                LossConfig(method=method, sampler_correction="token_truncated"),
                [[0.0, junk]],
                [[-0.5, NAN]],
                [[1, 0]],
                kl=KlConfig(place="loss", beta=1.0),
                ref_logprobs=f64([[-1.0, NAN]]),
                sampling_logprobs=f64([[-1.0, NAN]]),
                entropy=f64([[0.7, NAN]]),
            )
            close(loss, 0.5 * (-1.0 if method == "cispo" else 1.0))
            close(gradient, [[0.5, 0.0]])
            close(metrics["policy_entropy_nats"], 0.7)
            assert all(math.isfinite(value) for value in metrics.values())


@golden
def an_empty_step_is_zero(o: SimpleNamespace) -> None:
    for method in ("dapo", "grpo", "gspo", "gspo_token", "cispo"):
        loss, gradient, metrics, _ = loss_of(
            o, LossConfig(method=method), [[0.1, 0.2], [NAN, 0.0]], [1.0, 1.0], [[0, 0], [0, 0]]
        )
        close(loss, 0.0)
        close(gradient, [[0.0, 0.0], [0.0, 0.0]])
        assert metrics["clip_fraction"] == 0.0
        assert metrics["importance_ratio_max"] == 0.0


# ---- metrics


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


# ---- overlong


@golden
def overlong_ramp(o: SimpleNamespace) -> None:
    penalty = o.overlong.overlong_penalty
    for limit, buffer, lengths, expected in (
        (100, 20, (79, 80, 81, 90, 99, 100, 101, 140), (0, 0, -0.05, -0.5, -0.95, -1, -1, -1)),
        (256, 64, (192, 193, 224, 256, 257), (0, -0.015625, -0.5, -1, -1)),
        (20480, 4096, (16384, 16385, 20479, 20481), (0, -0.000244140625, -0.999755859375, -1)),
        (100, 0, (99, 100, 101), (0, 0, -1)),
        (100, 100, (0, 50, 100), (0, -0.5, -1)),
    ):
        close([penalty(n, max_length=limit, buffer=buffer) for n in lengths], expected)


# ---- log-probs


@golden
def logprobs_of_three_tokens(o: SimpleNamespace) -> None:
    p = f64([0.6, 0.3, 0.1])
    hidden = f64([[1.0]]).requires_grad_()
    weight = p.log().reshape(3, 1).requires_grad_()
    for chosen in range(3):
        logprobs, entropy = o.logprobs.selective_logprobs(hidden, weight, torch.tensor([chosen]))
        close(logprobs.detach(), [math.log(p[chosen])])
        close(entropy, [0.8979457248567798])
        slopes = torch.autograd.grad(logprobs.sum(), (hidden, weight))
        close(slopes[0], [[math.log(p[chosen]) + 0.8979457248567798]])
        expected = [(1.0 if v == chosen else 0.0) - float(p[v]) for v in range(3)]
        close(slopes[1][:, 0], expected)


@golden
def logprobs_of_large_logits(o: SimpleNamespace) -> None:
    hidden = f64([[1000.0]]).requires_grad_()
    weight = f64([[1.0], [0.0], [1.0]])
    run = o.logprobs.selective_logprobs
    logprobs, entropy = run(hidden, weight, torch.tensor([1]), temperature=2.0)
    close(logprobs.detach(), [-500.0 - math.log(2.0)])
    close(entropy, [math.log(2.0)])
    close(torch.autograd.grad(logprobs.sum(), hidden)[0], [[-0.5]])
    cut = o.logprobs.HeadSpec(bias=f64([0.0, float("-inf"), 0.0]))
    logprobs, entropy = run(hidden.detach(), weight, torch.tensor([2]), head=cut)
    close(logprobs, [-math.log(2.0)])
    close(entropy, [math.log(2.0)])


@golden
def logprobs_in_blocks_of_the_vocabulary(o: SimpleNamespace) -> None:
    # Four tokens with probabilities 0.4, 0.3, 0.2, 0.1, projected three columns at a time.
    p = f64([0.4, 0.3, 0.2, 0.1])
    weight = p.log().reshape(4, 1)
    bias = torch.zeros(4, dtype=torch.float64)
    head = o.projection.Head(weight, bias, 1.0, None)
    plan = o.projection.ProjectionPlan(2, 3, 9, torch.float64)
    hidden, ids = f64([[1.0], [1.0], [1.0]]), torch.tensor([3, 0, 2])
    inverse = f64([1.0, 1.0, 2.0])
    rows = o.projection.forward_rows(hidden, head, ids, inverse, plan, True)
    squares = p.square() / p.square().sum()
    close(rows.logprobs, [math.log(0.1), math.log(0.4), float(squares[2].log())])
    entropy = float(-(p * p.log()).sum())
    close(rows.entropy, [entropy] * 3)
    close(rows.tempered_entropy[2], -(squares * squares.log()).sum())
    pull = 2.0 * (p[2].log() - (squares * p.log()).sum())
    expected = [math.log(0.1) + entropy, math.log(0.4) + entropy, float(pull)]
    close(rows.row_gradient[:, 0], expected)
    incoming = f64([1.0, 10.0, 0.5])
    to_weight, to_bias = o.projection.backward_head(
        hidden, head, ids, inverse, rows.offset, rows.log_sum, incoming, plan
    )
    hot = torch.eye(4, dtype=torch.float64)
    total = (hot[3] - p) + 10.0 * (hot[0] - p) + 0.5 * 2.0 * (hot[2] - squares)
    close(to_weight[:, 0], total)
    close(to_bias, total)
    half = o.projection.Head(weight.to(torch.float32), None, 1.0, None)
    again = o.projection.forward_rows(hidden, half, ids, inverse, plan, True)
    close(again.row_gradient[:, 0], expected, 1e-6)
    to_half, nothing = o.projection.backward_head(
        hidden, half, ids, inverse, again.offset, again.log_sum, incoming, plan
    )
    assert nothing is None
    close(to_half[:, 0], total, 1e-6)


@golden
def ids_outside_the_vocabulary_are_refused(o: SimpleNamespace) -> None:
    hidden, weight = f64([[1.0], [1.0]]), f64([[0.1], [0.2], [0.3]])
    for ids in ([0, 3], [-1, 2]):
        refused(o.logprobs.selective_logprobs, hidden, weight, torch.tensor(ids))
    refused(o.logprobs.selective_logprobs, hidden, weight, torch.tensor([0, 1]), chunk_tokens=0)
    refused(o.logprobs.selective_logprobs, hidden, weight, torch.tensor([0, 1]), temperature=0.0)
    o.logprobs.selective_logprobs(hidden, weight, torch.tensor([0, 2]))


@golden
def logprobs_at_a_temperature(o: SimpleNamespace) -> None:
    # At temperature 2 probabilities are proportional to their roots: sqrt(0.64), sqrt(0.36).
    p = f64([0.64, 0.36])
    q = f64([0.8, 0.6]) / 1.4
    hidden = f64([[1.0], [1.0]]).requires_grad_()
    weight = p.log().reshape(2, 1).requires_grad_()
    result = o.logprobs.token_logprobs(
        hidden, weight, torch.tensor([0, 1]), temperature=torch.tensor([2.0, 1.0]), chunk_tokens=1
    )
    close(result.logprobs.detach(), [float(q[0].log()), float(p[1].log())])
    entropy = float(-(p * p.log()).sum())
    close(result.policy_entropy_nats, [entropy, entropy])
    close(result.sampling_entropy_nats, [float(-(q * q.log()).sum()), entropy])
    both = o.logprobs.token_logprobs(hidden, weight, torch.tensor([0, 1]), temperature=2.0)
    close(both.logprobs.detach(), q.log())
    slopes = torch.autograd.grad(result.logprobs[0], (hidden, weight))
    close(slopes[0], [[float(p[0].log() - (q * p.log()).sum()) / 2.0], [0.0]])
    close(slopes[1][:, 0], [float(1 - q[0]) / 2.0, -float(q[1]) / 2.0])


@golden
def logprobs_of_a_capped_head(o: SimpleNamespace) -> None:
    head = o.logprobs.HeadSpec(scale=0.5, softcap=2.0, bias=f64([0.1, -0.1]).requires_grad_())
    hidden, weight = f64([[1.0, 2.0]]).requires_grad_(), f64([[0.3, 0.4], [-0.2, 1.0]])
    weight.requires_grad_()
    result = o.logprobs.token_logprobs(hidden, weight, torch.tensor([1]), head=head)
    # scale x products 0.55 and 0.9; bias: 0.65 and 0.8; capped 2 tanh(x / 2).
    capped = [2 * math.tanh(0.325), 2 * math.tanh(0.4)]
    total = math.exp(capped[0]) + math.exp(capped[1])
    close(result.logprobs.detach(), [capped[1] - math.log(total)])
    p0 = math.exp(capped[0]) / total
    pull = [-p0 * (1 - math.tanh(0.325) ** 2), p0 * (1 - math.tanh(0.4) ** 2)]
    slopes = torch.autograd.grad(result.logprobs.sum(), (hidden, weight, head.bias))
    close(slopes[0][0], [0.5 * (pull[0] * 0.3 - pull[1] * 0.2), 0.5 * (pull[0] * 0.4 + pull[1])])
    close(slopes[1], [[0.5 * pull[0], pull[0]], [0.5 * pull[1], pull[1]]])
    close(slopes[2], pull)


@golden
def resolved_presets_meet_their_papers(o: SimpleNamespace) -> None:
    bounds = {
        name: (loss.ratio, loss.clip_low, loss.clip_high, loss.ratio_cap, loss.aggregation)
        for name in ("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo")
        for loss in [resolve_loss(LossConfig(method=name), longest_completion_tokens=8)]
    }
    assert bounds == {
        "grpo": ("token", 0.2, 0.2, None, "sequence_mean"),
        "dapo": ("token", 0.2, 0.28, None, "token_mean"),
        "dr_grpo": ("token", 0.2, 0.2, None, "constant_length"),
        "gspo": ("sequence", 3e-4, 4e-4, None, "sequence_mean"),
        "gspo_token": ("sequence_token", 3e-4, 4e-4, None, "sequence_mean"),
        "cispo": ("token", None, None, 5.0, "token_mean"),
    }
