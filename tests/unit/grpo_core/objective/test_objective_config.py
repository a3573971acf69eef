import subprocess
import sys

import pytest
from pydantic import BaseModel, ValidationError

from grpo_core.errors import ConfigError
from grpo_core.objective.config import (
    AdvantageConfig,
    KlBudgetConfig,
    KlConfig,
    LossConfig,
    MaskConfig,
)
from grpo_core.objective.presets import PRESETS, resolve_loss, resolve_std

SECTIONS = (AdvantageConfig, LossConfig, MaskConfig, KlConfig, KlBudgetConfig)


def test_configuration_imports_no_torch():
    code = (
        "import sys; from grpo_core.objective import LossConfig, KlConfig, resolve_loss; "
        "import grpo_core.objective.checks, grpo_core.objective.kl_control; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("section", SECTIONS)
def test_every_leaf_is_documented_and_keys_the_train_artefact(section):
    assert len(section.model_fields) <= 15
    for name, field in section.model_fields.items():
        if isinstance(field.default, BaseModel):
            continue
        assert field.description, name
        assert field.json_schema_extra == {"keys": ["train"]}, name


@pytest.mark.parametrize("section", SECTIONS)
def test_sections_are_frozen_and_closed(section):
    with pytest.raises(ValidationError):
        section(unknown=1)
    value = section()
    with pytest.raises(ValidationError):
        setattr(value, next(iter(section.model_fields)), None)


def test_presets_fill_what_is_unset_only():
    assert resolve_loss(LossConfig(method="dapo", clip_high=0.5)).clip_high == 0.5
    assert resolve_loss(LossConfig(method="dapo")).clip_high == 0.28
    assert resolve_loss(LossConfig(method="gspo", ratio="token")).ratio == "token"
    weighted = resolve_loss(LossConfig(method="grpo", surrogate="weighted"))
    assert (weighted.ratio_cap, weighted.clip_low) == (5.0, None)
    clipped = resolve_loss(LossConfig(method="cispo", surrogate="clipped"))
    assert (clipped.clip_low, clipped.clip_high, clipped.ratio_cap) == (0.2, 0.2, None)


def test_deviation_follows_the_method():
    unset = AdvantageConfig()
    stds = {method: resolve_std(unset, LossConfig(method=method)) for method in PRESETS}
    assert stds.pop("dr_grpo") == "none"
    assert set(stds.values()) == {"sample"}
    assert resolve_std(AdvantageConfig(std="population"), LossConfig()) == "population"


@pytest.mark.parametrize(
    "options",
    [
        {"method": "cispo", "clip_low": 0.1},
        {"method": "cispo", "clip_high": 0.1},
        {"method": "cispo", "dual_clip": 3.0},
        {"method": "grpo", "ratio_cap": 3.0},
        {"method": "grpo", "constant_length_tokens": 10},
        {"method": "grpo", "correction_cap": 2.0},
        {"method": "grpo", "sampler_correction": "token_truncated", "correction_low": 0.5},
        {"sampler_correction": "token_masked", "correction_low": 3.0, "correction_cap": 2.0},
        {"method": "dr_grpo"},
    ],
)
def test_options_that_nothing_reads_are_refused(options):
    with pytest.raises(ConfigError):
        resolve_loss(LossConfig(**options))


def test_the_constant_is_the_longest_phase_unless_set():
    config = LossConfig(method="dr_grpo")
    assert resolve_loss(config, longest_completion_tokens=64).constant_length_tokens == 64
    fixed = LossConfig(method="dr_grpo", constant_length_tokens=100)
    assert resolve_loss(fixed, longest_completion_tokens=64).constant_length_tokens == 100


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.1},
        {"budget": {"nats": 0.1}},
        {"place": "reward", "beta": 0.1, "importance_corrected": True},
        {"place": "reward", "beta": 0.1, "gradient": "k2"},
        {"place": "loss", "budget": {"nats": 0.1}},
        {
            "place": "loss",
            "beta": 0.1,
            "budget": {"nats": 0.1},
            "relax_start": 0.5,
            "relax_factor": 0.5,
        },
        {"place": "loss", "beta": 0.1, "relax_start": 0.5},
        {"place": "loss", "beta": 0.1, "relax_factor": 0.5},
        {"budget": {"beta_min": 2.0}},
    ],
)
def test_kl_settings_that_contradict_each_other_are_refused(options):
    with pytest.raises(ValidationError):
        KlConfig(**options)


def test_quantiles_must_be_in_order():
    with pytest.raises(ValidationError, match="winsorise_low"):
        AdvantageConfig(winsorise_low=0.5, winsorise_high=0.5)
