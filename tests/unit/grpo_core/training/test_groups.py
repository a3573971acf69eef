"""Groups first, drops after: advantages, drop reasons and mini-batches of one rollout batch."""

import math

import pytest
import torch

from grpo_core.config import RunConfig, load_config
from grpo_core.training.groups import assign_updates, decide_groups

CONFIG = load_config("tiny")
Rewards = list[list[float | None]]


def decide(raw: Rewards, *, config: RunConfig = CONFIG, shaped: Rewards | None = None):  # type: ignore[no-untyped-def]
    return decide_groups(
        config,
        raw=raw,
        graded=[[None] * len(group) for group in raw],
        shaped=shaped or raw,
        sources=["data"] * len(raw),
        ema_rewards={},
    )


def test_a_mixed_group_is_live_and_centred() -> None:
    decision = decide([[1.0, 0.0, 0.0, 0.0]])
    assert decision.is_live == [True]
    assert decision.drop_reasons == [None] * 4
    assert math.isclose(decision.advantages.sum().item(), 0.0, abs_tol=1e-6)
    assert math.isclose(decision.advantages[0, 0].item(), 1.499997, rel_tol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_verdicts_are_dropped_whatever_the_shaping(value: float) -> None:
    decision = decide([[value] * 4], shaped=[[value, value - 0.5, value, value]])
    assert decision.is_live == [False]
    assert decision.drop_reasons == ["zero_variance"] * 4
    assert decision.all_solved == [value == 1.0]
    assert decision.all_unsolved == [value == 0.0]


def test_null_rewards_leave_the_baseline_and_the_loss() -> None:
    decision = decide([[1.0, 0.0, None, None]])
    assert decision.drop_reasons == [None, None, "null_reward", "null_reward"]
    assert decision.advantages[0, 2:].tolist() == [0.0, 0.0]
    assert math.isclose(decision.advantages[0, 0].item(), math.sqrt(0.5), rel_tol=1e-5)


def test_a_group_with_one_decided_rollout_has_no_baseline() -> None:
    decision = decide([[1.0, None, None, None]])
    assert decision.is_live == [False]
    assert decision.drop_reasons == ["too_few_rewards", *["null_reward"] * 3]


def test_a_filter_that_is_off_keeps_flat_groups() -> None:
    config = load_config("tiny", overrides=["filter.zero_variance=false"])
    assert decide([[1.0] * 4], config=config).is_live == [True]


def test_dropping_never_mixes_prompts() -> None:
    """[1, 0], [1, 0] with one null each: dropping rows first would pair two prompts."""
    decision = decide([[None, 0.0], [1.0, None]])
    assert decision.is_live == [False, False]
    assert decision.advantages.abs().max().item() == 0.0


def test_live_groups_are_spread_evenly_and_deterministically() -> None:
    is_live = [True, False] * 8
    updates = assign_updates(is_live, updates=4, seed=(0, "minibatch", 1))
    assert updates == assign_updates(is_live, updates=4, seed=(0, "minibatch", 1))
    assert updates != assign_updates(is_live, updates=4, seed=(0, "minibatch", 5))
    for flag in (True, False):
        counts = [
            sum(u == n and live == flag for u, live in zip(updates, is_live, strict=True))
            for n in range(4)
        ]
        assert counts == [2, 2, 2, 2]


def test_the_running_mean_is_part_of_the_baseline_in_double_precision() -> None:
    config = load_config("tiny", overrides=["advantage.ema_weight=0.5", "advantage.std=none"])
    raw: Rewards = [[1.0, 0.0], [1.0, 0.0]]
    decision = decide_groups(
        config, raw=raw, graded=raw, shaped=raw, sources=["seen", "new"], ema_rewards={"seen": 0.8}
    )
    expected = [[0.35, -0.65], [0.5, -0.5]]
    assert (decision.advantages - torch.tensor(expected, dtype=torch.float64)).abs().max() < 1e-12


CONFIDENT = load_config("tiny", overrides=["reward.confidence_weighting=true"])


def decide_with(confidence: Rewards, raw: Rewards, config: RunConfig = CONFIDENT):  # type: ignore[no-untyped-def]
    return decide_groups(
        config,
        raw=raw,
        graded=raw,
        shaped=raw,
        sources=["data"] * len(raw),
        ema_rewards={},
        confidence=confidence,
    )


def test_without_a_confidence_every_weight_is_one() -> None:
    raw: Rewards = [[1.0, 0.0, 0.0, 0.0]]
    weighted = decide_with([[None, 1.0, None, 1.0]], raw)
    assert weighted.advantages.tolist() == decide(raw).advantages.tolist()


def test_confidence_counts_only_when_it_is_switched_on() -> None:
    raw: Rewards = [[1.0, 0.0, 0.0, 0.0]]
    assert (
        decide_with([[0.1, 1.0, 0.3, 0.0]], raw, CONFIG).advantages.tolist()
        == decide(raw).advantages.tolist()
    )


def test_a_group_that_only_a_distrusted_reward_tells_apart_carries_no_signal() -> None:
    decision = decide_with([[1.0, 1.0, 0.0]], [[1.0, 1.0, 0.0]])
    assert decision.is_live == [False]
    assert decision.drop_reasons == ["zero_variance", "zero_variance", "no_confidence"]
