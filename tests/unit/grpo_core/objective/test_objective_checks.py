import re
from pathlib import Path

import pytest

from grpo_core.config import load_config
from grpo_core.config.checks import run_facts
from grpo_core.objective import checks
from grpo_core.objective.checks import RunFacts, check_objective, largest_advantage
from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig, MaskConfig

CLEAN = RunFacts(
    group_size=8,
    updates_per_rollout=4,
    top_p=1.0,
    top_k=0,
    sampling_temperature=1.0,
    scoring_temperature=1.0,
    phase_tokens=(24, 40, 64),
    constant_lengths=(64, 64, 64),
    reward_range=(0.0, 1.0),
    has_binary_rewards=True,
    drops_zero_variance=True,
    shapes_overlong=True,
)


def codes(loss=None, *, facts=CLEAN, **sections):
    return [f.code for f in check_objective(loss or LossConfig(), facts=facts, **sections)]


def known(**changes):
    return RunFacts(**{**CLEAN.__dict__, **changes})


UNCLIPPED = AdvantageConfig(clip=None)


@pytest.mark.parametrize("method", ["grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo"])
def test_methods_as_published_have_nothing_to_report(method):
    assert codes(LossConfig(method=method), advantage=UNCLIPPED) == []


@pytest.mark.parametrize(
    ("code", "loss", "sections"),
    [
        ("cispo_cap_below_one", {"method": "cispo", "ratio_cap": 0.2}, {}),
        ("gspo_with_token_interval", {"method": "gspo", "clip_high": 0.2}, {}),
        ("token_ratio_with_sequence_interval", {"method": "grpo", "clip_high": 4e-4}, {}),
        ("dr_grpo_with_std", {"method": "dr_grpo"}, {"advantage": AdvantageConfig(std="sample")}),
        ("departs_from_method", {"method": "dr_grpo", "aggregation": "token_mean"}, {}),
        ("constant_length_moves", {}, {"facts": known(constant_lengths=(24, 40))}),
        (
            "constant_length_is_not_the_longest",
            {"aggregation": "constant_length", "constant_length_tokens": 40},
            {},
        ),
        ("dapo_without_dynamic_sampling", {}, {"facts": known(drops_zero_variance=False)}),
        ("dapo_without_overlong_shaping", {}, {"facts": known(shapes_overlong=False)}),
        ("clip_low_cannot_bind", {"clip_low": 1.0}, {}),
        ("one_update_per_rollout", {}, {"facts": known(updates_per_rollout=1)}),
        ("truncated_sampling_with_ratios", {}, {"facts": known(top_p=0.9)}),
        ("truncated_sampling_with_ratios", {}, {"facts": known(top_k=50)}),
        ("temperature_mismatch", {}, {"facts": known(scoring_temperature=0.7)}),
        (
            "product_mask_at_length",
            {"sampler_correction": "product_mask"},
            {"facts": known(phase_tokens=(1024, 4096))},
        ),
        ("group_of_two", {}, {"facts": known(group_size=2)}),
        ("advantage_clip_cannot_bind", {}, {"advantage": AdvantageConfig()}),
        ("tolerance_band_covers_all", {}, {"advantage": AdvantageConfig(tolerance_band=1.0)}),
        ("winsorised_binary_rewards", {}, {"advantage": AdvantageConfig(winsorise_high=0.9)}),
        ("k1_in_loss", {}, {"kl": KlConfig(place="loss", kind="k1", beta=0.1)}),
        ("k3_gradient", {}, {"kl": KlConfig(place="loss", beta=0.1)}),
        ("biased_kl_reward", {}, {"kl": KlConfig(place="reward", beta=0.1)}),
        ("kl_without_beta", {}, {"kl": KlConfig(place="loss", gradient="k2")}),
        (
            "kl_correction_cannot_act",
            {},
            {
                "kl": KlConfig(place="loss", beta=0.1, gradient="k2", importance_corrected=True),
                "facts": known(updates_per_rollout=1),
            },
        ),
        ("overlong_masked_and_punished", {}, {"mask": MaskConfig(truncated="drop")}),
    ],
)
def test_each_finding_has_a_configuration_that_fires_it(code, loss, sections):
    assert code in codes(LossConfig(**loss), **sections)


ONE_UPDATE = "train.updates_per_rollout=1"
BY_SETTINGS = {
    "cispo_cap_below_one": ("loss.method=cispo", "loss.ratio_cap=0.2"),
    "gspo_with_token_interval": ("loss.method=gspo", "loss.clip_high=0.2"),
    "token_ratio_with_sequence_interval": ("loss.method=grpo", "loss.clip_high=4e-4"),
    "dr_grpo_with_std": ("loss.method=dr_grpo", "advantage.std=sample"),
    "departs_from_method": ("loss.method=dr_grpo", "loss.aggregation=token_mean"),
    "constant_length_is_not_the_longest": ("loss.method=dr_grpo", "loss.constant_length_tokens=24"),
    "dapo_without_dynamic_sampling": ("filter.zero_variance=false",),
    "dapo_without_overlong_shaping": ("reward.overlong_weight=0",),
    "clip_low_cannot_bind": ("loss.clip_low=1",),
    "one_update_per_rollout": (ONE_UPDATE,),
    "product_mask_at_length": (
        "loss.sampler_correction=product_mask",
        'train.phases=[{"max_completion_tokens":100,"max_steps":4}]',
    ),
    "group_of_two": ("train.group_size=2",),
    "advantage_clip_cannot_bind": (),
    "tolerance_band_covers_all": ("advantage.tolerance_band=1",),
    "winsorised_binary_rewards": ("advantage.winsorise_high=0.9",),
    "k1_in_loss": ("kl.place=loss", "kl.kind=k1"),
    "k3_gradient": ("kl.place=loss",),
    "biased_kl_reward": ("kl.place=reward",),
    "kl_without_beta": ("kl.beta=0",),
    "kl_correction_cannot_act": ("kl.gradient=k2", "kl.importance_corrected=true", ONE_UPDATE),
    "overlong_masked_and_punished": ("mask.truncated=drop",),
}
NOT_CONFIGURABLE = {
    "truncated_sampling_with_ratios",
    "temperature_mismatch",
    "constant_length_moves",
}


@pytest.mark.parametrize("code", BY_SETTINGS)
def test_each_finding_is_reached_from_the_settings_of_a_run(code):
    config = load_config("tiny", overrides=BY_SETTINGS[code])
    sections = {name: getattr(config, name) for name in ("advantage", "kl", "mask")}
    assert code in codes(config.loss, facts=run_facts(config), **sections)


def test_findings_that_no_setting_reaches_are_told():
    found = set(re.findall(r'Finding\(\s*"(\w+)"', Path(checks.__file__).read_text()))
    assert found == BY_SETTINGS.keys() | NOT_CONFIGURABLE
    methods = (Path(__file__).parents[4] / "docs" / "methods.md").read_text()
    for code in NOT_CONFIGURABLE:
        assert re.search(rf"`{code}` \|.*cannot be configured", methods), code


def test_a_constant_of_the_longest_budget_is_as_published():
    loss = LossConfig(method="dr_grpo", constant_length_tokens=64)
    assert codes(loss, advantage=UNCLIPPED) == []


def test_short_completions_may_use_the_product():
    loss = LossConfig(sampler_correction="product_mask")
    assert "product_mask_at_length" not in codes(loss, facts=known(phase_tokens=(91,)))
    assert "product_mask_at_length" in codes(loss, facts=known(phase_tokens=(92,)))


def test_bound_of_standardised_advantages_is_reached_by_one_outlier():
    from grpo_core.objective import group_advantages

    rewards = [[1.0] + [0.0] * 7]
    for std in ("sample", "population"):
        for baseline in ("mean", "leave_one_out"):
            actual = group_advantages(rewards, std=std, baseline=baseline, eps=0.0)
            assert float(actual.max()) == pytest.approx(largest_advantage(8, std, baseline))


def test_nothing_is_reported_about_what_is_not_known():
    assert codes(facts=RunFacts(), advantage=UNCLIPPED) == []
