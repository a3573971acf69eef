"""Every option of the objective changes a real training step, and none is left out of the table.

One rollout batch of the shipped model through the real collector and updater, with the option and
without; see `one_batch`.
"""

from dataclasses import dataclass

import pytest
from one_batch import template_text, train_one_batch

from grpo_core.config import RunConfig
from grpo_core.config.fields import leaves

SECTIONS = ("advantage.", "loss.", "kl.", "mask.", "filter.")
ELSEWHERE = {"filter.refill_rounds"}
"""Acts on sampled batches only: `test_refill`."""
OTHERS = ("reward.confidence_weighting", "reward.overlong_weight", "reward.overlong_buffer_share")


@dataclass(frozen=True)
class Case:
    """Settings under which an option acts, and a value that it does not have there.

    `along` stands with the option only, because it would act on nothing without it.
    """

    value: str
    beside: tuple[str, ...] = ()
    along: tuple[str, ...] = ()


def case(value: str, *beside: str, along: tuple[str, ...] = ()) -> Case:
    return Case(value, beside, along)


TEMPLATE = "a text of the batch"
UNSCALED = "advantage.std=none"
VARIED = "reward.rules.length_weight=0.2"  # rewards that are not just 0 and 1
GRADED = ("reward.process_credit=true", "reward.scale=01")
RELAXED = ("kl.relax_start=0.2", "kl.relax_factor=0.5")
TIGHT = "kl.budget.nats=1e-6"  # the measured divergence is over it
CASES = {
    "advantage.std": case("population"),
    "advantage.std_scope": case("batch"),
    "advantage.eps": case("0.1"),
    "advantage.clip": case("0.3", UNSCALED),
    "advantage.baseline": case("leave_one_out", UNSCALED),
    "advantage.winsorise_low": case("0.6", UNSCALED, VARIED),
    "advantage.winsorise_high": case("0.7", UNSCALED, VARIED),
    "advantage.ema_weight": case("0.5", UNSCALED),
    "advantage.ema_decay": case("0.5", "advantage.ema_weight=0.5"),
    "advantage.tolerance_band": case("0.3", UNSCALED),
    "loss.method": case("gspo"),
    "loss.ratio": case("sequence"),
    "loss.surrogate": case("weighted"),
    "loss.clip_low": case("0.01"),
    "loss.clip_high": case("0.01"),
    "loss.dual_clip": case("1.01"),
    "loss.ratio_cap": case("0.9", "loss.method=cispo"),
    "loss.aggregation": case("prompt_mean"),
    "loss.constant_length_tokens": case("10", "loss.method=dr_grpo"),
    "loss.sampler_correction": case("token_truncated"),
    "loss.correction_low": case("0.99", "loss.sampler_correction=token_masked"),
    "loss.correction_cap": case("1.01", "loss.sampler_correction=token_truncated"),
    "loss.off_policy_mask_nats": case("0.01"),
    "kl.place": case("reward"),
    "kl.kind": case("k2"),
    "kl.gradient": case("k2"),
    "kl.beta": case("0.2"),
    "kl.importance_corrected": case("true"),
    "kl.log": case("false", "kl.place=none", "kl.beta=0"),
    "kl.relax_start": case("0.6", *RELAXED),
    "kl.relax_factor": case("0.9", *RELAXED),
    "kl.budget.nats": case("1e-6"),
    "kl.budget.ema_decay": case("0.1", "kl.budget.nats=0.05"),
    "kl.budget.factor": case("3", TIGHT),
    "kl.budget.beta_min": case("0.09", "kl.budget.nats=1000"),
    "kl.budget.beta_max": case("0.12", TIGHT),
    "kl.step_end_weight": case("3"),
    "kl.conclusion_weight": case("3"),
    "kl.conclusion_tokens": case("2", "kl.conclusion_weight=3"),
    "mask.truncated": case("drop"),
    "mask.repeat_ngram_tokens": case("3", along=("mask.repeat_free_count=1",)),
    "mask.repeat_free_count": case("1", "mask.repeat_ngram_tokens=3"),
    "mask.template_spans": case(TEMPLATE),
    "filter.zero_variance": case("false"),
    "filter.key": case("raw", *GRADED),
    "filter.tolerance": case("0.5", *GRADED),
    "reward.confidence_weighting": case("true"),
    "reward.overlong_weight": case("0.5", along=("reward.overlong_buffer_share=0.9",)),
    "reward.overlong_buffer_share": case("0.9", "reward.overlong_weight=0.5"),
}


def test_every_option_has_a_case() -> None:
    options = {path for path, _, _ in leaves(RunConfig()) if path.startswith(SECTIONS)}
    assert set(CASES) == (options - ELSEWHERE) | set(OTHERS)


@pytest.mark.parametrize("option", CASES)
def test_an_option_changes_the_training(option: str) -> None:
    chosen = CASES[option]
    value = f'["{template_text()}"]' if chosen.value == TEMPLATE else chosen.value
    others = [setting for setting in chosen.beside if not setting.startswith(f"{option}=")]
    before = train_one_batch(*chosen.beside)
    after = train_one_batch(*others, *chosen.along, f"{option}={value}")
    assert after.differs_from(before)


def test_the_same_settings_train_the_same() -> None:
    # Names the presets' own values, so that the run is a new one and not the remembered one.
    again = train_one_batch("loss.method=dapo", "kl.kind=k3")
    assert not again.differs_from(train_one_batch())


IN_REWARD = ("kl.place=reward", "kl.kind=k1")


@pytest.mark.parametrize(
    "override",
    ["kl.kind=k3", "kl.beta=0.2", "kl.step_end_weight=3", "kl.conclusion_weight=3"],
)
def test_an_option_of_the_divergence_acts_in_the_reward_too(override: str) -> None:
    before, after = train_one_batch(*IN_REWARD), train_one_batch(*IN_REWARD, override)
    assert after.differs_from(before)
    penalties = [[row["reward_kl"] for row in outcome.rollouts] for outcome in (before, after)]
    assert penalties[0] != penalties[1]


def test_the_baseline_is_the_mean_weighted_by_confidence() -> None:
    outcome = train_one_batch("reward.confidence_weighting=true", "advantage.std=none")
    rows = [row for row in outcome.rollouts if row["confidence"] == 0.5]
    group = [row for row in outcome.rollouts if row["group"] == rows[0]["group"]]
    # Rewards 1, 1, 0 of confidence 0.5, 1.0, 0.2: mean 1.5 / 1.7; the fourth has no reward.
    mean = 1.5 / 1.7
    expected = [0.5 * (1 - mean), 1 - mean, -0.2 * mean, 0.0]
    assert [row["advantage"] for row in group] == pytest.approx(expected, abs=1e-6)
    distrusted = [row for row in outcome.rollouts if row["confidence"] == 0.0]
    assert [row["drop_reason"] for row in distrusted] == ["no_confidence"]
    assert [row["advantage"] for row in distrusted] == [0.0]
