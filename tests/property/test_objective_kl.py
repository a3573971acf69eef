"""Properties of KL estimators, their gradients and the control of beta."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.objective import kl_estimate
from grpo_core.objective.config import KlConfig
from grpo_core.objective.kl import kl_loss_tokens
from grpo_core.objective.kl_control import next_control, scheduled_beta, start_control
from grpo_core.objective.ratios import exp_with_tail

torch.set_num_threads(1)
steady = settings(max_examples=40, deadline=None, derandomize=True)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


logits = st.lists(st.floats(-3, 3), min_size=2, max_size=6)


def distributions(first, second):
    size = min(len(first), len(second))
    return torch.log_softmax(f64(first[:size]), 0), torch.log_softmax(f64(second[:size]), 0)


@steady
@given(logits, logits)
def test_k1_and_k3_are_unbiased_and_k3_is_never_negative(first, second):
    policy, reference = distributions(first, second)
    exact = (policy.exp() * (policy - reference)).sum()
    for kind in ("k1", "k3"):
        mean = (policy.exp() * kl_estimate(policy, reference, kind=kind)).sum()
        torch.testing.assert_close(mean, exact, rtol=1e-9, atol=1e-9)
    for kind in ("k2", "k3"):
        assert float(kl_estimate(policy, reference, kind=kind).min()) >= -1e-12


def expected_gradient(policy_logits, reference, kl):
    """Returns the expected gradient of a KL loss over tokens of the policy itself."""
    values = policy_logits.clone().requires_grad_()
    policy = torch.log_softmax(values, 0)
    tokens = kl_loss_tokens(policy - policy.detach(), policy - reference, kl)
    (policy.detach().exp() * tokens).sum().backward()
    return values.grad


@steady
@given(logits, logits)
def test_gradients_of_kl_losses_are_what_the_docs_say(first, second):
    size = min(len(first), len(second))
    values = f64(first[:size])
    reference = torch.log_softmax(f64(second[:size]), 0)
    leaf = values.clone().requires_grad_()
    policy = torch.log_softmax(leaf, 0)
    reverse = torch.autograd.grad((policy.exp() * (policy - reference)).sum(), leaf)[0]
    leaf = values.clone().requires_grad_()
    forward = torch.autograd.grad(
        (reference.exp() * (reference - torch.log_softmax(leaf, 0))).sum(), leaf
    )[0]

    def gradient(**options):
        return expected_gradient(values, reference, KlConfig(place="loss", beta=1.0, **options))

    same = {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(gradient(kind="k1"), torch.zeros(size).double(), **same)
    torch.testing.assert_close(gradient(kind="k2"), reverse, **same)
    torch.testing.assert_close(gradient(kind="k3"), forward, **same)
    torch.testing.assert_close(gradient(kind="k3", gradient="k2"), reverse, **same)
    torch.testing.assert_close(gradient(kind="k3", importance_corrected=True), reverse, **same)
    torch.testing.assert_close(gradient(kind="k1", importance_corrected=True), reverse, **same)


@steady
@given(st.floats(-300, 300))
def test_tails_are_finite_and_monotone(gap):
    x = torch.tensor([gap, gap + 1.0], dtype=torch.float32, requires_grad=True)
    value = exp_with_tail(x)
    (slope,) = torch.autograd.grad(value.sum(), x)
    assert bool(torch.isfinite(value).all())
    assert bool(torch.isfinite(slope).all())
    assert float(value[1].detach()) >= float(value[0].detach())
    estimate = kl_estimate(torch.zeros(2), x.detach())
    assert bool(torch.isfinite(estimate).all())
    assert float(estimate.min()) >= 0.0


@steady
@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_the_controlled_beta_stays_within_bounds(measured):
    budget = {"nats": 0.1, "beta_min": 0.001, "beta_max": 0.5}
    config = KlConfig(place="loss", beta=0.01, budget=budget)
    state = start_control(config)
    for step, value in enumerate(measured, start=1):
        state = next_control(state, config, ref_kl_k3=value, progress=step / len(measured))
        assert 0.001 <= state.beta <= 0.5


@steady
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.0, 0.99), st.floats(0.0, 0.99))
def test_scheduled_beta_never_rises(first, second, start, factor):
    config = KlConfig(place="loss", beta=0.1, relax_start=start, relax_factor=factor)
    early, late = sorted((first, second))
    assert scheduled_beta(config, late) <= scheduled_beta(config, early) + 1e-15
    assert scheduled_beta(config, late) >= 0.1 * factor - 1e-15
