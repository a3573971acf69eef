"""Configurations: every mistake names its field, nothing unknown passes, every leaf has a place."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from grpo_core.config import RunConfig, load_config, preset_names, stored_config
from grpo_core.config.fields import declared_kinds, leaves
from grpo_core.config.load import regraded_config
from grpo_core.errors import ConfigError
from grpo_core.types import Kind


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_loads(preset: str) -> None:
    assert isinstance(load_config(preset), RunConfig)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.grup_size=4", "did you mean train.group_size"),
        ("group_size=4", "did you mean train.group_size"),
        ("trian.group_size=4", "did you mean train"),
        ("train.gae_lambda=0.9", "GRPO has no gae_lambda"),
        ("train.vf_coef=0.5", "GRPO has no vf_coef"),
        ("critic.lr=1", "GRPO has no critic"),
        ("train.use_critic=true", "GRPO has no use_critic"),
        ("train.value_clip=0.2", "GRPO has no value_clip"),
        ("train.phases.0.max_stepz=4", "did you mean train.phases.0.max_steps"),
        ("evaluate.max_completion_tokens=8", "would cut completions"),
        ("train.group_size=1", "train.group_size: .* got 1"),
        ("train.learning_rate=fast", "train.learning_rate"),
        ("train.phases.1.max_completion_tokens=3", "budgets must rise"),
        ("train.phases.1.max_steps=13", "train.phases.1.max_steps: 13 is not a multiple"),
        ("train.phases.9.max_steps=2", "'9' is not a position"),
        ("bands.hard_max=0.6", "bands.medium_max"),
        ("evaluate.ks=[32]", "pass@32"),
        ("prefilter.samples_per_prompt=4", "cannot fill a group of 8"),
        ("train", "not of the form"),
        ("train.=3", "not of the form"),
        ("seed.x=3", "nothing can be set below it"),
    ],
)
def test_mistakes_name_the_field(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config("tiny", overrides=[override])


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.trust_remote_code=true"],
        [" model.trust_remote_code = true"],
        ['model={"path":"data/models/tiny","trust_remote_code":true}'],
        ['model = {"trust_remote_code": 1}'],
        ['model={"trust_remote_code":"yes"}'],
        ["model={}", "model.trust_remote_code=on"],
        ['model={"path":"a","path":"b","trust_remote_code":false,"trust_remote_code":true}'],
    ],
)
def test_no_spelling_of_an_override_lets_a_model_run_its_code(overrides: list[str]) -> None:
    with pytest.raises(ConfigError, match="trust_remote_code cannot be set by an override"):
        load_config("tiny", overrides=overrides)


def test_a_config_file_lets_a_model_run_its_code_and_no_override_changes_that(
    tmp_path: Path,
) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[model]\ntrust_remote_code = true\n")
    assert load_config("tiny", config_file=file).model.trust_remote_code
    assert load_config(
        "tiny", config_file=file, overrides=["model.dtype=bfloat16"]
    ).model.trust_remote_code
    for override in ("model.trust_remote_code=false", 'model={"path":"data/models/tiny"}'):
        with pytest.raises(ConfigError, match="cannot be set by an override"):
            load_config("tiny", config_file=file, overrides=[override])
    assert not load_config(
        "tiny", overrides=["model.path=data/models/tiny"]
    ).model.trust_remote_code


@pytest.mark.parametrize("override", ['model={"trust_remote_code":true}', "model.path=x"])
def test_regrading_takes_no_setting_of_the_model(override: str) -> None:
    with pytest.raises(ConfigError, match="only verdicts and bands"):
        regraded_config(load_config("tiny"), [override])


def test_an_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tiny'"):
        load_config("tinny")


def test_layers_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[train]\ngroup_size = 4\nprompts_per_rollout = 16\n")
    config = load_config("tiny", config_file=file, overrides=["train.group_size=6"])
    assert (config.train.group_size, config.train.prompts_per_rollout) == (6, 16)
    assert config.prefilter.samples_per_prompt == 32


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[train\n")
    with pytest.raises(ConfigError, match=r"own\.toml is not valid TOML"):
        load_config("tiny", config_file=file)


def test_seeds_default_to_the_runs() -> None:
    config = load_config("tiny", overrides=["seed=7", "train.seed=9"])
    assert config.seed_of("prefilter") == 7
    assert config.seed_of("train") == 9


def test_a_configuration_is_frozen() -> None:
    config = load_config("tiny")
    with pytest.raises(ValidationError):
        config.train.group_size = 3


def test_every_leaf_declares_its_artefacts() -> None:
    undeclared = [
        path for path, field, _ in leaves(load_config("tiny")) if declared_kinds(field) is None
    ]
    assert undeclared == []


def test_declared_kinds_exist() -> None:
    known = {kind.value for kind in Kind}
    for path, field, _ in leaves(load_config("tiny")):
        assert set(declared_kinds(field) or ()) <= known, path


def test_every_leaf_is_described() -> None:
    bare = [path for path, field, _ in leaves(load_config("tiny")) if not field.description]
    assert bare == []


def test_own_problems_are_not_judged_on_the_presets_problems() -> None:
    own = load_config("tiny", overrides=["prompts.source=mine.jsonl"]).prompts
    assert (own.validation_source, own.test_source) == ("", "")
    given = load_config(
        "tiny", overrides=["prompts.source=mine.jsonl", "prompts.test_source=other.jsonl"]
    ).prompts
    assert (given.validation_source, given.test_source) == ("", "other.jsonl")
    assert load_config("tiny").prompts.test_source.endswith("test.jsonl")


def test_evaluation_takes_the_last_phases_budget() -> None:
    assert load_config("tiny").evaluation_tokens == 64
    longer = load_config("tiny", overrides=["train.phases.2.max_completion_tokens=80"])
    assert longer.evaluation_tokens == 80


def test_a_stored_configuration_of_another_release_names_its_file(tmp_path: Path) -> None:
    values = load_config("tiny").model_dump(mode="json")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    assert stored_config(tmp_path) == load_config("tiny")
    path.write_text(json.dumps(values | {"curriculum": {"pace": 2}}))
    with pytest.raises(ConfigError, match=r"config.json: .*curriculum") as refused:
        stored_config(tmp_path)
    assert "another release" in refused.value.hint
