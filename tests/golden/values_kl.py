"""Divergence from the reference: values worked out by hand."""

import math
from types import SimpleNamespace

import torch
from objective_values import NAN, close, f64, golden, loss_of

from grpo_core.objective.config import KlConfig, LossConfig


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
def steps_without_a_measurement(o: SimpleNamespace) -> None:
    relaxed = KlConfig(place="loss", beta=0.04, relax_start=0.5, relax_factor=0.25)
    follow = o.kl_control.next_control
    started = o.kl_control.KlControl(beta=0.04, ema=0.5)
    after = follow(started, relaxed, ref_kl_k3=None, progress=0.75)
    close((after.beta, after.ema), (0.025, 0.5))
    first = follow(o.kl_control.start_control(relaxed), relaxed, ref_kl_k3=None, progress=0.75)
    assert (first.beta, first.ema) == (0.025, None)
    budget = KlConfig(place="loss", beta=0.04, budget={"nats": 0.1})
    assert follow(started, budget, ref_kl_k3=None, progress=0.1) is started
    unmeasured = o.kl_control.start_control(budget)
    assert follow(unmeasured, budget, ref_kl_k3=None, progress=0.1) is unmeasured


@golden
def control_of_a_run_that_goes_on(o: SimpleNamespace) -> None:
    resume, saved = o.kl_control.resumed_control, o.kl_control.KlControl(beta=0.2, ema=0.5)
    relaxed = KlConfig(place="loss", beta=0.04, relax_start=0.5, relax_factor=0.25)
    after = resume(saved, relaxed, progress=0.75)
    close((after.beta, after.ema), (0.025, 0.5))
    budget = {"nats": 0.1, "beta_min": 0.03, "beta_max": 0.3}
    config = KlConfig(place="loss", beta=0.04, budget=budget)
    for beta, expected in ((0.2, 0.2), (0.9, 0.3), (0.01, 0.03), (0.0, 0.04)):
        after = resume(o.kl_control.KlControl(beta=beta, ema=0.5), config, progress=0.75)
        close((after.beta, after.ema), (expected, 0.5))


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
