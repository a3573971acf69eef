"""Beta over real steps: a budget that is overspent, one that is hardly touched, a schedule."""

import pytest
from one_batch import train_one_batch


def test_an_overspent_budget_raises_beta_and_says_so() -> None:
    outcome = train_one_batch("kl.budget.nats=1e-6", "kl.budget.factor=2")
    assert [step["beta"] for step in outcome.steps] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert outcome.state.kl.beta == 1.0  # held at beta_max
    assert [event["kind"] for event in outcome.events] == ["kl_budget"] * 4
    first = outcome.events[0]
    assert (first["before"], first["after"]) == pytest.approx((0.1, 0.2))
    assert "over what the budget of 1e-06 nats allows" in first["reason"]


def test_an_untouched_budget_lowers_beta_to_its_bound() -> None:
    outcome = train_one_batch("kl.budget.nats=1000", "kl.budget.beta_min=0.05")
    assert outcome.steps[1]["beta"] == pytest.approx(0.1 / 1.5)
    assert outcome.state.kl.beta == 0.05
    assert "under half of what the budget" in outcome.events[0]["reason"]


def test_a_schedule_is_no_action_of_a_controller() -> None:
    outcome = train_one_batch("kl.relax_start=0.5", "kl.relax_factor=0.2")
    assert [step["beta"] for step in outcome.steps] == pytest.approx([0.1, 0.1, 0.1, 0.06])
    assert outcome.state.kl.beta == pytest.approx(0.02)
    assert outcome.events == []


def test_clip_fractions_are_split_by_the_sign_of_the_advantage() -> None:
    outcome = train_one_batch("loss.clip_low=0.01", "loss.clip_high=0.01")
    later = outcome.steps[-1]
    assert later["clip_fraction"] > 0
    parts = later["clip_fraction_positive"] + later["clip_fraction_negative"]
    assert parts == pytest.approx(later["clip_fraction"])
    assert later["clip_fraction_positive"] == pytest.approx(later["clip_fraction_high"])
    assert later["ess"] < 1.0
    assert outcome.steps[0]["ess"] == pytest.approx(1.0)
    assert outcome.steps[0]["sampler_kl_k3"] > 0
