import pytest
import torch

from grpo_core.config import load_config, preset_names
from grpo_core.config.checks import run_facts
from grpo_core.objective import (
    AdvantageConfig,
    KlConfig,
    LossConfig,
    MaskConfig,
    finalize_metrics,
    merge_metrics,
    verify_loss,
)
from grpo_core.objective import verify as verify_module
from grpo_core.objective import verify_advantages as verify_advantages_module
from grpo_core.objective import verify_masks as verify_masks_module
from grpo_core.objective.batch import step_totals
from grpo_core.objective.checks import RunFacts
from grpo_core.objective.generated import generate_step
from grpo_core.objective.losses import policy_loss
from grpo_core.objective.presets import resolve_loss
from grpo_core.objective.verify import arrangements
from grpo_core.objective.verify_advantages import ADVANTAGE_TOLERANCE, advantage_error

torch.set_num_threads(1)

FACTS = RunFacts(phase_tokens=(16,))
CONFIGURATIONS = {
    "grpo": ({"method": "grpo"}, {}),
    "dapo, every correction": (
        {"sampler_correction": "token_masked", "off_policy_mask_nats": 0.05, "dual_clip": 1.5},
        {"kind": "k3", "gradient": "k2", "importance_corrected": True},
    ),
    "dr_grpo with k1": ({"method": "dr_grpo"}, {"kind": "k1"}),
    "gspo by prompt": (
        {"method": "gspo", "aggregation": "prompt_mean", "sampler_correction": "geometric_mask"},
        {"kind": "k2", "importance_corrected": True},
    ),
    "gspo_token": ({"method": "gspo_token", "sampler_correction": "product_mask"}, {}),
    "cispo truncated": (
        {"method": "cispo", "sampler_correction": "token_truncated", "ratio_cap": 1.2},
        {"kind": "k3"},
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configured_losses_meet_their_definition(name):
    loss, kl = CONFIGURATIONS[name]
    section = KlConfig(place="loss", beta=0.1, **kl) if kl else None
    report = verify_loss(LossConfig(**loss), kl=section, facts=FACTS, seeds=2)
    assert report.passed, (report.max_loss_error, report.max_gradient_error)
    assert len(report.cases) == 2 * 6
    assert report.resolved.method == loss.get("method", "dapo")


@pytest.mark.parametrize("preset", preset_names())
def test_the_loss_of_every_shipped_preset_is_right(preset):
    config = load_config(preset)
    report = verify_loss(
        config.loss,
        advantage=config.advantage,
        kl=config.kl,
        mask=config.mask,
        facts=run_facts(config),
        seeds=1,
    )
    assert report.passed


def test_weights_show_who_counts_how_much():
    by_token = verify_loss(LossConfig(method="dapo"), seeds=1)
    assert {round(row.relative_weight, 6) for row in by_token.weights} == {1.0}
    assert sum(row.rollout_weight for row in by_token.weights) == pytest.approx(1.0)
    by_rollout = verify_loss(LossConfig(method="grpo"), seeds=1)
    assert len({round(row.rollout_weight, 9) for row in by_rollout.weights}) == 1
    short = min(by_rollout.weights, key=lambda row: row.length_tokens)
    assert short.relative_weight > 1


def test_findings_are_part_of_the_report():
    report = verify_loss(LossConfig(method="cispo", ratio_cap=0.2), seeds=1)
    assert "cispo_cap_below_one" in [finding.code for finding in report.findings]


def test_a_loss_normalised_by_micro_batch_does_not_pass(monkeypatch):
    def by_micro_batch(batch, config, **options):
        local = step_totals(batch.completion_mask, group_index=batch.group_index)
        return policy_loss(type(batch)(**{**batch.__dict__, "totals": local}), config, **options)

    monkeypatch.setattr(verify_module, "policy_loss", by_micro_batch)
    report = verify_loss(LossConfig(method="dapo"), seeds=1)
    assert not report.passed
    assert report.max_gradient_error > 0.1


def test_ranks_that_count_only_their_own_rows_do_not_pass(monkeypatch):
    def own_rows(mask, *, reduce_sum=None, **options):
        return step_totals(mask, **options)

    monkeypatch.setattr(verify_module, "step_totals", own_rows)
    report = verify_loss(LossConfig(method="dapo"), seeds=1)
    failed = [case.arrangement for case in report.cases if case.gradient_error > 1e-5]
    assert failed == ["two ranks"]


ADVANTAGES = {
    "as preset": {},
    "population": {"std": "population", "eps": 0.01},
    "none, clipped": {"std": "none", "clip": 0.3},
    "batch deviation": {"std_scope": "batch"},
    "leave one out": {"baseline": "leave_one_out"},
    "winsorised": {"winsorise_low": 0.1, "winsorise_high": 0.7},
    "running mean": {"ema_weight": 0.4},
    "banded": {"tolerance_band": 0.2},
    "everything": {
        "std": "population",
        "std_scope": "batch",
        "baseline": "leave_one_out",
        "winsorise_high": 0.9,
        "ema_weight": 0.3,
        "tolerance_band": 0.1,
        "clip": 1.0,
    },
}


@pytest.mark.parametrize("name", ADVANTAGES)
def test_configured_advantages_meet_their_definition(name):
    config = AdvantageConfig(**ADVANTAGES[name])
    error = advantage_error(config, LossConfig(), group_size=5, seeds=4)
    assert error <= ADVANTAGE_TOLERANCE


@pytest.mark.parametrize(
    "broken",
    [
        lambda rewards: [[0.0 if r is None else r for r in group] for group in rewards],
        lambda rewards: rewards[::-1],
    ],
    ids=["nulls as zeros", "groups mixed up"],
)
def test_wrong_advantages_do_not_pass(monkeypatch, broken):
    right = verify_advantages_module.configured_advantages
    monkeypatch.setattr(
        verify_advantages_module,
        "configured_advantages",
        lambda rewards, *args, **options: right(broken(rewards), *args, **options),
    )
    assert not verify_loss(LossConfig(), seeds=1).passed


MASKS = {
    "truncated": {"truncated": "drop"},
    "n-grams": {"repeat_ngram_tokens": 3, "repeat_free_count": 1},
    "texts": {"template_spans": ("The answer is", "", " b")},
}


@pytest.mark.parametrize(
    "options",
    [{}, *MASKS.values(), {k: v for o in MASKS.values() for k, v in o.items()}],
    ids=["none", *MASKS, "all"],
)
def test_configured_masks_meet_their_definition(options):
    report = verify_loss(LossConfig(), mask=MaskConfig(**options), seeds=2)
    assert report.passed
    assert report.masks.wrong == 0
    assert 0 < report.masks.masked < report.masks.tokens


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_that_does_not_act_does_not_pass(monkeypatch, name):
    right = verify_masks_module.loss_masks
    monkeypatch.setattr(
        verify_masks_module,
        "loss_masks",
        lambda generated, _, **o: right(generated, MaskConfig(), **o),
    )
    report = verify_loss(LossConfig(), mask=MaskConfig(**MASKS[name]), seeds=1)
    assert not report.passed
    assert report.masks.wrong > 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("n-grams", {"repeat_free_count": 2}),
        ("n-grams", {"repeat_ngram_tokens": 4}),
        ("texts", {"template_spans": ("The answer is",)}),
        ("texts", {"template_spans": ("The answer i", " b")}),
    ],
)
def test_a_mask_that_acts_elsewhere_does_not_pass(monkeypatch, name, change):
    right = verify_masks_module.loss_masks
    other = MaskConfig(**{**MASKS[name], **change})
    monkeypatch.setattr(
        verify_masks_module, "loss_masks", lambda generated, _, **o: right(generated, other, **o)
    )
    assert not verify_loss(LossConfig(), mask=MaskConfig(**MASKS[name]), seeds=2).passed


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_a_penalty_in_the_reward_meets_its_definition(kind):
    kl = KlConfig(place="reward", kind=kind, beta=0.1)
    report = verify_loss(LossConfig(), kl=kl, seeds=2)
    assert report.passed
    assert 0 < report.penalty_error < 1e-5


def test_a_penalty_of_the_wrong_sign_does_not_pass(monkeypatch):
    right = verify_advantages_module.kl_reward_penalty
    monkeypatch.setattr(
        verify_advantages_module, "kl_reward_penalty", lambda *a, **o: -right(*a, **o)
    )
    kl = KlConfig(place="reward", kind="k1", beta=0.1)
    assert not verify_loss(LossConfig(), kl=kl, seeds=1).passed


def test_a_loss_that_is_nan_does_not_pass(monkeypatch):
    def broken(batch, config, **options):
        output = policy_loss(batch, config, **options)
        return type(output)(output.loss * float("nan"), output.metrics, output.token_weights)

    monkeypatch.setattr(verify_module, "policy_loss", broken)
    assert not verify_loss(LossConfig(method="dapo"), seeds=1).passed


@pytest.mark.parametrize("method", ["dapo", "gspo", "cispo"])
def test_metrics_do_not_depend_on_the_arrangement(method):
    needs = ("ref_logprobs", "sampling_logprobs", "entropy")
    step = generate_step(2)
    config = resolve_loss(LossConfig(method=method))
    finished = []
    for how in arrangements(step.mask.shape[0]):
        parts = [
            policy_loss(
                step.rows(part).padded(how.left, how.right).batch(step.totals, needs=needs), config
            ).metrics
            for part in how.parts
        ]
        finished.append(finalize_metrics(merge_metrics(parts), step.totals))
    for other in finished[1:]:
        assert other == pytest.approx(finished[0], rel=1e-6, abs=1e-9)


def test_a_missing_micro_batch_is_noticed():
    step = generate_step(2)
    part = step.rows(torch.arange(8)).batch(step.totals)
    metrics = policy_loss(part, LossConfig(method="dapo")).metrics
    with pytest.raises(ValueError, match="live tokens"):
        finalize_metrics(metrics, step.totals)
