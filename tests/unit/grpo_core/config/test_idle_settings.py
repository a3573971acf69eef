"""A setting that nothing would read is refused, and the message says why."""

import pytest

from grpo_core.config import load_config
from grpo_core.config.checks import config_warnings
from grpo_core.config.idle import IDLE
from grpo_core.errors import ConfigError

OFF = ("kl.place=none", "kl.beta=0")
CASES = {
    "advantage.eps": ("advantage.eps=0.1", "advantage.std=none"),
    "advantage.std_scope": ("advantage.std_scope=batch", "loss.method=dr_grpo"),
    "advantage.ema_decay": ("advantage.ema_decay=0.5",),
    "mask.repeat_free_count": ("mask.repeat_free_count=1",),
    "kl.kind": ("kl.kind=k2", *OFF),
    "kl.step_end_weight": ("kl.step_end_weight=2", *OFF),
    "kl.conclusion_weight": ("kl.conclusion_weight=2", "kl.beta=0"),
    "kl.relax_start": ("kl.relax_start=0.5", "kl.relax_factor=0.5", "kl.beta=0"),
    "kl.log": ("kl.log=false",),
    "kl.conclusion_tokens": ("kl.conclusion_tokens=2",),
    "kl.budget.ema_decay": ("kl.budget.ema_decay=0.5",),
    "kl.budget.factor": ("kl.budget.factor=2",),
    "kl.budget.beta_min": ("kl.budget.beta_min=0.001",),
    "kl.budget.beta_max": ("kl.budget.beta_max=2",),
    "filter.tolerance": ("filter.tolerance=0.1", "filter.zero_variance=false"),
    "reward.overlong_buffer_share": (
        "reward.overlong_buffer_share=0.1",
        "reward.overlong_weight=0",
    ),
    "reward.rules.repetition_ngram": ("reward.rules.repetition_ngram=4",),
    "reward.rules.language_script": ("reward.rules.language_script=han",),
    "reward.similarity_weight": ("reward.similarity_weight=0.1",),
}


def test_every_idle_setting_has_a_case() -> None:
    assert set(CASES) == {path for idle in IDLE for path in idle.paths}


@pytest.mark.parametrize("path", CASES)
def test_an_idle_setting_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=f"{path}: .* has no effect while"):
        load_config("tiny", overrides=CASES[path])


def test_winsorising_is_questioned_for_binary_rewards_only() -> None:
    cut = "advantage.winsorise_high=0.9"
    assert any("quantiles of 0/1" in w for w in config_warnings(load_config(overrides=[cut])))
    varied = load_config(overrides=[cut, "reward.rules.length_weight=0.1"])
    assert not any("quantiles of 0/1" in warning for warning in config_warnings(varied))


def test_a_bound_that_someone_set_and_that_cannot_bind_is_reported() -> None:
    named = config_warnings(load_config("tiny", overrides=["advantage.clip=5"]))
    assert any("advantage.clip 5 never acts" in warning for warning in named)
    assert not any("advantage.clip" in w for w in config_warnings(load_config("tiny")))
