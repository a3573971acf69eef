"""Aggregation, ratios and clipping: values worked out by hand."""

import math
from types import SimpleNamespace

import torch
from objective_values import close, f64, golden, loss_of

from grpo_core.objective.config import LossConfig

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
