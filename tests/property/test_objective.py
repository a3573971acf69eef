"""Properties that hold for every input, not for chosen ones."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.objective import (
    LossBatch,
    LossConfig,
    group_advantages,
    policy_loss,
    resolve_loss,
    selective_logprobs,
    step_totals,
)
from grpo_core.objective.generated import generate_step
from grpo_core.objective.masks import length_mask
from grpo_core.objective.reference import group_advantages as defined_advantages
from grpo_core.objective.verify import Arrangement, run_arrangement
from grpo_core.rewards import overlong_penalty

torch.set_num_threads(1)
steady = settings(max_examples=40, deadline=None, derandomize=True)

METHODS = ("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo")
rewards = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), min_size=4, max_size=4),
    min_size=1,
    max_size=4,
)
nullable = st.lists(st.one_of(st.none(), st.floats(-2, 2)), min_size=2, max_size=8)
stds = st.sampled_from(["sample", "population", "none"])
baselines = st.sampled_from(["mean", "leave_one_out"])
methods = st.sampled_from(METHODS)
seeds = st.integers(0, 10_000)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def resolved(method, **options):
    return resolve_loss(LossConfig(method=method, **options), longest_completion_tokens=12)


def drift(method):
    return 1e-3 if method.startswith("gspo") else 0.3


def whole(step):
    return Arrangement("whole", (torch.arange(step.mask.shape[0]),))


# ---- advantages


@steady
@given(rewards, stds, baselines, st.integers(-8, 8))
def test_a_constant_in_the_reward_changes_no_advantage(values, std, baseline, shift):
    options = {"std": std, "baseline": baseline}
    shifted = group_advantages(f64(values) + shift, **options)
    torch.testing.assert_close(shifted, group_advantages(f64(values), **options))


@steady
@given(rewards, baselines, st.sampled_from([0.125, 2.0, 64.0]))
def test_a_factor_in_the_reward_cancels_in_the_deviation(values, baseline, factor):
    plain = group_advantages(f64(values), baseline=baseline, eps=0.0)
    scaled = group_advantages(factor * f64(values), baseline=baseline, eps=0.0)
    torch.testing.assert_close(scaled, plain)
    torch.testing.assert_close(
        group_advantages(factor * f64(values), baseline=baseline, std="none"),
        factor * group_advantages(f64(values), baseline=baseline, std="none"),
    )


@steady
@given(rewards, stds, baselines, st.permutations(range(4)), seeds)
def test_order_of_rollouts_and_groups_is_kept(values, std, baseline, order, seed):
    options = {"std": std, "baseline": baseline}
    groups = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    moved = group_advantages(f64(values)[groups][:, order], **options)
    torch.testing.assert_close(moved, group_advantages(f64(values), **options)[groups][:, order])


@steady
@given(rewards, stds)
def test_advantages_of_a_group_sum_to_zero(values, std):
    sums = group_advantages(f64(values), std=std).sum(dim=1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), rtol=0.0, atol=1e-9)


@steady
@given(rewards, stds, st.lists(st.floats(0.1, 1.0), min_size=4, max_size=4))
def test_weighted_advantages_of_a_group_sum_to_zero(values, std, weights):
    confidence = f64([weights] * len(values))
    sums = group_advantages(f64(values), std=std, weights=confidence).sum(dim=1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), rtol=0.0, atol=1e-9)


@steady
@given(rewards, stds, baselines, st.floats(0.2, 5.0))
def test_equal_weights_change_direction_of_nothing(values, std, baseline, weight):
    options = {"std": std, "baseline": baseline, "eps": 0.0}
    even = group_advantages(f64(values), weights=torch.full((len(values), 4), weight), **options)
    torch.testing.assert_close(even, weight * group_advantages(f64(values), **options))


@steady
@given(nullable, stds)
def test_nulls_change_nothing_for_the_others(values, std):
    known = [value for value in values if value is not None]
    actual = group_advantages([values], std=std)[0]
    assert all(float(actual[i]) == 0.0 for i, value in enumerate(values) if value is None)
    if len(known) >= 2:
        kept = actual[[i for i, value in enumerate(values) if value is not None]]
        torch.testing.assert_close(kept, group_advantages([known], std=std)[0])


@steady
@given(nullable, stds)
def test_advantages_equal_their_definition(values, std):
    expected = f64(defined_advantages(values, std=std))
    torch.testing.assert_close(
        group_advantages([values], std=std)[0], expected, rtol=1e-6, atol=1e-9
    )


@steady
@given(rewards, st.floats(0.0, 1.0))
def test_a_band_only_lifts_negative_advantages(values, band):
    plain = group_advantages(f64(values), std="none")
    banded = group_advantages(f64(values), std="none", tolerance_band=band)
    assert bool((banded >= plain).all())
    assert bool(((banded == plain) | (banded == 0.0)).all())


# ---- loss


@steady
@given(methods, seeds, st.integers(0, 4), st.integers(0, 4))
def test_padding_changes_nothing(method, seed, left, right):
    step, config = generate_step(seed, drift=drift(method)), resolved(method)
    rows = (torch.arange(step.mask.shape[0]),)
    loss, gradient = run_arrangement(step, whole(step), config)
    padded, moved = run_arrangement(step, Arrangement("padded", rows, left, right), config)
    assert math.isclose(loss, padded, rel_tol=1e-5, abs_tol=1e-8)
    torch.testing.assert_close(moved, gradient, rtol=1e-5, atol=1e-9)


@steady
@given(methods, seeds, st.integers(1, 16))
def test_any_split_in_any_order_adds_up(method, seed, size):
    step, config = generate_step(seed, drift=drift(method), per_token=True), resolved(method)
    order = torch.randperm(step.mask.shape[0], generator=torch.Generator().manual_seed(seed))
    loss, gradient = run_arrangement(step, whole(step), config)
    parts = Arrangement("split", torch.split(order, size))
    summed, accumulated = run_arrangement(step, parts, config)
    assert math.isclose(loss, summed, rel_tol=1e-5, abs_tol=1e-8)
    torch.testing.assert_close(accumulated, gradient, rtol=1e-5, atol=1e-9)


@steady
@given(methods, seeds)
def test_ratio_one_gives_the_policy_gradient(method, seed):
    # d loss / d logprobs = -weight x advantage, whatever the method clips or caps.
    step = generate_step(seed, drift=0.0)
    config = resolved(method)
    _, gradient = run_arrangement(step, whole(step), config)
    output = policy_loss(step.batch(step.totals), config)
    expected = torch.where(step.mask, -output.token_weights * step.advantages, 0.0)
    if config.ratio == "sequence":
        expected = torch.where(step.mask, expected, 0.0)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-9)


@steady
@given(methods, seeds)
def test_advantages_of_zero_give_no_gradient(method, seed):
    step = generate_step(seed, drift=drift(method))
    flat = type(step)(**{**step.__dict__, "advantages": 0.0 * step.advantages})
    loss, gradient = run_arrangement(flat, whole(step), resolved(method))
    assert loss == 0.0
    assert float(gradient.abs().max()) == 0.0


@steady
@given(methods, seeds)
def test_gradient_never_pushes_against_the_advantage(method, seed):
    step = generate_step(seed, drift=drift(method))
    _, gradient = run_arrangement(step, whole(step), resolved(method))
    push = torch.where(step.mask, -gradient * step.advantages, 0.0)
    assert float(push.min()) >= 0.0


@steady
@given(seeds, st.sampled_from(["token_mean", "sequence_mean", "prompt_mean"]))
def test_weights_of_a_mean_sum_to_one(seed, aggregation):
    step = generate_step(seed)
    output = policy_loss(
        step.batch(step.totals), LossConfig(method="dapo", aggregation=aggregation)
    )
    assert math.isclose(float(output.token_weights.sum()), 1.0, rel_tol=1e-5)


@steady
@given(seeds)
def test_equal_lengths_make_the_means_equal(seed):
    draw = torch.Generator().manual_seed(seed)
    old = -torch.rand((8, 5), generator=draw)
    logprobs = old + 0.3 * torch.randn((8, 5), generator=draw)
    groups = torch.arange(2).repeat_interleave(4)
    batch = LossBatch.whole_step(
        logprobs,
        old,
        torch.randn(8, generator=draw),
        torch.ones((8, 5), dtype=torch.bool),
        group_index=groups,
    )
    losses = [
        float(policy_loss(batch, LossConfig(method="grpo", aggregation=name)).loss)
        for name in ("token_mean", "sequence_mean", "prompt_mean")
    ]
    constant = LossConfig(method="grpo", aggregation="constant_length", constant_length_tokens=5)
    losses.append(float(policy_loss(batch, constant).loss))
    assert max(losses) - min(losses) < 1e-6


@steady
@given(seeds, st.integers(1, 16))
def test_totals_of_ranks_are_those_of_the_step(seed, size):
    step = generate_step(seed)
    masks, groups = torch.split(step.mask, size), torch.split(step.group_index, size)
    parts = [
        torch.cat([torch.tensor([int(m.sum()), int(m.any(1).sum()), m.shape[0]]), counts])
        for m, g in zip(masks, groups, strict=True)
        for counts in [torch.zeros(4, dtype=torch.int64).index_add_(0, g, m.sum(1))]
    ]
    total = step_totals(
        masks[0],
        group_index=groups[0],
        num_groups=4,
        reduce_sum=lambda mine: mine + sum(parts[1:], torch.zeros_like(mine)),
    )
    expected = step.totals
    for name in ("live_tokens", "live_rollouts", "sampled_rollouts", "live_prompts"):
        assert getattr(total, name) == getattr(expected, name)
    assert total.prompt_tokens.tolist() == expected.prompt_tokens.tolist()


# ---- masks, overlong, log-probs


@steady
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(6, 9))
def test_length_masks_of_both_sides_mirror_each_other(lengths, width):
    counts = torch.tensor(lengths)
    right = length_mask(counts, width)
    assert right.sum(dim=1).tolist() == lengths
    assert torch.equal(right.flip(1), length_mask(counts, width, side="left"))


@steady
@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 400))
def test_overlong_penalty_falls_from_zero_to_minus_one(limit, buffer, length):
    buffer = min(buffer, limit)
    here = overlong_penalty(length, max_length=limit, buffer=buffer)
    assert -1.0 <= overlong_penalty(length + 1, max_length=limit, buffer=buffer) <= here <= 0.0
    assert overlong_penalty(limit - buffer, max_length=limit, buffer=buffer) == 0.0


@steady
@given(seeds, st.integers(1, 9), st.sampled_from([0.5, 1.0, 1.5]))
def test_chunked_logprobs_are_log_softmax(seed, chunk, temperature):
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn((6, 5), generator=draw)
    weight = torch.randn((13, 5), generator=draw)
    ids = torch.randint(0, 13, (6,), generator=draw)
    logprobs, entropy = selective_logprobs(
        hidden, weight, ids, temperature=temperature, chunk_tokens=chunk
    )
    scores = hidden @ weight.T
    expected = torch.log_softmax(scores / temperature, dim=1)[torch.arange(6), ids]
    torch.testing.assert_close(logprobs, expected, rtol=1e-5, atol=1e-5)
    full = torch.distributions.Categorical(logits=scores).entropy()
    torch.testing.assert_close(entropy, full, rtol=1e-4, atol=1e-5)
