"""Reward settings: the verifier's choices are all there, and bad functions are refused at load."""

from dataclasses import asdict
from pathlib import Path

import pytest

from grpo_core.config import load_config
from grpo_core.config.load import regraded_config
from grpo_core.config.verifier import VerifierConfig
from grpo_core.errors import ConfigError
from grpo_core.rewards import VerifierOptions
from grpo_core.rewards.rows import grader_rules, verifier_options


def test_every_choice_of_the_verifier_is_a_setting_with_its_default() -> None:
    assert VerifierConfig().options() == asdict(VerifierOptions())


def test_choices_reach_the_verifier() -> None:
    config = load_config(
        "tiny",
        overrides=["reward.verifier.decimal_comma=true", 'reward.verifier.reasoning_tags=["plan"]'],
    )
    options = verifier_options(config)
    assert options == VerifierOptions(decimal_comma=True, reasoning_tags=("plan",))
    assert grader_rules(config).options == options


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["reward.function=none.py:f"], "does not exist"),
        (["reward.function=os:system"], "standard library"),
        (["reward.function=docs/examples/rewards.py:nothing"], "expected `def nothing`"),
        (['reward.verifiers={"judge": "none.py:f"}'], "does not exist"),
        (['reward.verifiers={"math": "docs/examples/rewards.py:closeness"}'], "built-in"),
        (["reward.function=code"], "unit tests"),
        (["reward.overlong_weight=1"], "no higher than a short wrong one"),
        (["reward.verifier.fallback=guess"], "reward.verifier.fallback"),
        (["reward.verifier.decimal_coma=true"], "decimal_comma"),
    ],
)
def test_what_cannot_grade_is_refused_at_load(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("tiny", overrides=overrides)
    assert words in str(caught.value)


def test_functions_may_stand_in_a_config_file(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[reward]\nfunction = "docs/examples/rewards.py:closeness"\npass_threshold = 0.9\n'
        '[reward.verifiers]\nboxed = "docs/examples/rewards.py:boxed_only"\n'
    )
    rules = grader_rules(load_config("tiny", config_file=file))
    assert rules.verifier_of({"verifier": None}) == "docs/examples/rewards.py:closeness"
    assert rules.names == ("math", "code", "boxed")
    assert rules.pass_threshold == 0.9


def test_regrading_takes_settings_of_rewards_and_bands_only() -> None:
    config = load_config("tiny")
    changed = regraded_config(config, ["reward.verifier.missing_unit=false", "bands.hard_max=0.2"])
    assert (changed.reward.verifier.missing_unit, changed.bands.hard_max) == (False, 0.2)
    assert changed.model_copy(update={"reward": config.reward, "bands": config.bands}) == config
    with pytest.raises(ConfigError, match="only verdicts and bands"):
        regraded_config(config, ["train.group_size=2"])


@pytest.mark.parametrize(
    ("overrides", "weight"),
    [
        ([], 0.5),
        (["reward.scale=±1"], 1.0),
        (["reward.scale=±1", "reward.overlong_weight=0.25"], 0.25),
        (["reward.overlong_weight=0"], 0.0),
    ],
)
def test_the_overlong_weight_follows_the_scale(overrides: list[str], weight: float) -> None:
    assert load_config("tiny", overrides=overrides).reward.overlong_factor == weight
