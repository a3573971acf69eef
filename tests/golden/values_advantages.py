"""Advantages: values worked out by hand."""

import math
from types import SimpleNamespace

from objective_values import NAN, SQRT2, close, f64, golden

from grpo_core.objective.config import AdvantageConfig, LossConfig


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
def flat_groups_under_a_running_mean_keep_their_distance_to_it(o: SimpleNamespace) -> None:
    group = o.advantages.group_advantages
    smooth = {"ema_baseline": f64([0.5, 0.5]), "ema_weight": 0.25}
    flat = [[1.0, 1.0], [0.0, 0.0]]
    close(group(flat, std="none", **smooth), [[0.125, 0.125], [-0.125, -0.125]])
    close(group(flat, eps=0.0, **smooth), [[0.0, 0.0], [0.0, 0.0]])
    # Batch deviation of 1, 1, 0, 0: population 0.5.
    batch = {"std": "population", "std_scope": "batch", "eps": 0.0}
    close(group(flat, **batch, **smooth), [[0.25, 0.25], [-0.25, -0.25]])
    close(group(flat, **batch), [[0.0, 0.0], [0.0, 0.0]])
    close(group([[0.3, 0.3], [0.3, 0.3]], **batch, **smooth), [[0.0, 0.0], [0.0, 0.0]])
    close(group([[0.3, 0.3 + 5e-10], [0.3, 0.3]], **batch, **smooth), [[0.0, 0.0], [0.0, 0.0]])
    unseen = {"ema_baseline": f64([NAN, 0.5]), "ema_weight": 0.25}
    actual = group([[0.3, 0.3 + 5e-10], [1.0, 1.0]], std="none", **unseen)
    assert actual[0].tolist() == [0.0, 0.0]
    close(actual[1], [0.125, 0.125])


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
