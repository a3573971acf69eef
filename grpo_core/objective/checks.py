"""Configurations that are legal but not what their name promises; imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

from grpo_core.objective.config import AdvantageConfig, KlConfig, LossConfig, MaskConfig
from grpo_core.objective.presets import PRESETS, ResolvedLoss, resolve_loss, resolve_std

_WIDE_SEQUENCE_CLIP = 0.01
_MISMATCH_NATS = 0.012
_METHODS = "see docs/methods.md"


@dataclass(frozen=True)
class Finding:
    """One thing that a configuration does not do although it reads as if it did.

    Attributes:
        code: Stable name.
        level: `warn` where the result is probably not the wanted one, `note` where it is a
            property of the chosen method that is often overlooked.
        message: What happens.
        hint: What to change.
    """

    code: str
    level: Literal["warn", "note"]
    message: str
    hint: str = _METHODS


@dataclass(frozen=True)
class RunFacts:
    """What the rest of a run decides; None is unknown and not checked.

    Attributes:
        group_size: G.
        updates_per_rollout: Optimiser steps on one rollout batch, epochs included.
        top_p: Nucleus of the sampler.
        top_k: Of the sampler; 0 is off.
        sampling_temperature: Base temperature of the sampler.
        scoring_temperature: Temperature that log-probs are computed at.
        phase_tokens: Completion budget of each phase.
        constant_lengths: Constant of `constant_length` in each phase.
        reward_range: Lowest and highest reward before shaping.
        has_binary_rewards: Rewards are 0 or 1, but for overlong completions.
        drops_zero_variance: Groups without signal are dropped or resampled.
        shapes_overlong: The soft overlong punishment is on.
    """

    group_size: int | None = None
    updates_per_rollout: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    sampling_temperature: float | None = None
    scoring_temperature: float | None = None
    phase_tokens: tuple[int, ...] | None = None
    constant_lengths: tuple[int, ...] | None = None
    reward_range: tuple[float, float] | None = None
    has_binary_rewards: bool | None = None
    drops_zero_variance: bool | None = None
    shapes_overlong: bool | None = None


def check_objective(
    loss: LossConfig,
    *,
    advantage: AdvantageConfig | None = None,
    kl: KlConfig | None = None,
    mask: MaskConfig | None = None,
    facts: RunFacts | None = None,
) -> list[Finding]:
    """Returns what a reader of the configuration would be wrong about.

    Raises:
        ConfigError: The configuration is not legal at all; see `resolve_loss`.
    """
    known = facts or RunFacts()
    longest = max(known.phase_tokens) if known.phase_tokens else 1
    resolved = resolve_loss(loss, longest_completion_tokens=longest)
    advantages = advantage or AdvantageConfig()
    return [
        *_method_findings(loss, resolved, advantages, known),
        *_ratio_findings(resolved, known),
        *_advantage_findings(loss, advantages, known),
        *_kl_findings(kl or KlConfig(), known),
        *_mask_findings(mask or MaskConfig(), known),
    ]


def largest_advantage(group_size: int, std: str, baseline: str) -> float:
    """Returns the bound on |advantage| of a standardised group, reached by a single outlier.

    (G - 1) / sqrt(G) for the sample deviation, sqrt(G - 1) for the population's; a leave-one-out
    baseline multiplies by G / (G - 1).
    """
    size = float(group_size)
    bound = (size - 1) / sqrt(size) if std == "sample" else sqrt(size - 1)
    return bound * size / (size - 1) if baseline == "leave_one_out" else bound


def _method_findings(
    loss: LossConfig, resolved: ResolvedLoss, advantage: AdvantageConfig, facts: RunFacts
) -> Iterator[Finding]:
    preset = PRESETS[loss.method]
    for field in ("ratio", "surrogate", "aggregation"):
        actual, named = getattr(resolved, field), getattr(preset, field)
        if actual != named:
            yield Finding(
                "departs_from_method",
                "warn",
                f"{loss.method} has {field} {named} ({preset.source}); configured: {actual}",
            )
    std = resolve_std(advantage, loss)
    if loss.method == "dr_grpo" and std != "none":
        yield Finding(
            "dr_grpo_with_std",
            "warn",
            f"dr_grpo divides by no standard deviation; configured: {std}",
            "unset advantage.std",
        )
    if preset.drops_zero_variance and facts.drops_zero_variance is False:
        yield Finding(
            "dapo_without_dynamic_sampling",
            "warn",
            f"{loss.method} drops groups without signal and samples others; this run keeps them",
        )
    if preset.shapes_overlong and facts.shapes_overlong is False:
        yield Finding(
            "dapo_without_overlong_shaping",
            "note",
            f"{loss.method} punishes overlong completions softly; this run does not",
        )
    if facts.constant_lengths is not None and len(set(facts.constant_lengths)) > 1:
        yield Finding(
            "constant_length_moves",
            "warn",
            f"the constant of constant_length changes over phases: {facts.constant_lengths}",
            "set loss.constant_length_tokens once, to the longest phase's budget",
        )


def _ratio_findings(resolved: ResolvedLoss, facts: RunFacts) -> Iterator[Finding]:
    if resolved.ratio_cap is not None and resolved.ratio_cap < 1:
        yield Finding(
            "cispo_cap_below_one",
            "warn",
            f"loss.ratio_cap {resolved.ratio_cap} is absolute: every on-policy token is weighted "
            f"{resolved.ratio_cap} instead of 1",
            "5.0 in arXiv 2510.13786; a cap of 1 + e is written 1 + e here",
        )
    by_sequence = resolved.ratio != "token"
    clip_high = resolved.clip_high
    if by_sequence and clip_high is not None and clip_high > _WIDE_SEQUENCE_CLIP:
        yield Finding(
            "gspo_with_token_interval",
            "warn",
            f"loss.clip_high {clip_high} on sequence ratios practically never clips",
            "3e-4 and 4e-4 in arXiv 2507.18071",
        )
    if not by_sequence and clip_high is not None and clip_high < _WIDE_SEQUENCE_CLIP:
        yield Finding(
            "token_ratio_with_sequence_interval",
            "warn",
            f"loss.clip_high {clip_high} on token ratios clips most tokens after one update",
        )
    if resolved.clip_low == 1:
        yield Finding(
            "clip_low_cannot_bind", "note", "loss.clip_low 1 never clips: no ratio is below 0"
        )
    if facts.updates_per_rollout == 1:
        yield Finding(
            "one_update_per_rollout",
            "note",
            "with one update a rollout batch the ratio is 1: clip bounds, ratio cap and dual clip "
            "never act",
            "raise train.updates_per_rollout, or read the loss as plain policy gradient",
        )
    yield from _sampler_findings(resolved, facts)


def _sampler_findings(resolved: ResolvedLoss, facts: RunFacts) -> Iterator[Finding]:
    if (facts.top_p is not None and facts.top_p < 1) or (facts.top_k or 0) > 0:
        yield Finding(
            "truncated_sampling_with_ratios",
            "warn",
            "top_p or top_k renormalises what is sampled; trainer log-probs are over the whole "
            "vocabulary, so ratios are off by the kept mass",
            "sample with top_p = 1 and top_k off",
        )
    sampling, scoring = facts.sampling_temperature, facts.scoring_temperature
    if sampling is not None and scoring is not None and sampling != scoring:
        yield Finding(
            "temperature_mismatch",
            "warn",
            f"sampled at temperature {sampling}, scored at {scoring}: ratios compare two "
            "distributions",
        )
    if resolved.sampler_correction == "product_mask":
        reach = int(max(log(resolved.correction_cap), 0.0) / _MISMATCH_NATS)
        longest = max(facts.phase_tokens) if facts.phase_tokens else None
        if longest is None or longest > reach:
            yield Finding(
                "product_mask_at_length",
                "warn",
                f"a product of ratios reaches {resolved.correction_cap:g} after {reach} tokens at "
                f"{_MISMATCH_NATS} nats a token: long completions are dropped for their length",
                "use geometric_mask or a token-level correction",
            )


def _advantage_findings(
    loss: LossConfig, advantage: AdvantageConfig, facts: RunFacts
) -> Iterator[Finding]:
    std = resolve_std(advantage, loss)
    standardised = std != "none" and advantage.std_scope == "group"
    if facts.group_size == 2 and standardised:
        yield Finding(
            "group_of_two",
            "warn",
            "with G = 2 and a group deviation every advantage is plus or minus one constant, "
            "however far apart the rewards are",
        )
    if facts.group_size is not None and advantage.clip is not None and standardised:
        bound = largest_advantage(facts.group_size, std, advantage.baseline)
        if advantage.clip >= bound and advantage.ema_weight == 0:
            yield Finding(
                "advantage_clip_cannot_bind",
                "note",
                f"advantage.clip {advantage.clip:g} never acts: a standardised advantage of "
                f"G = {facts.group_size} stays within {bound:.3f}",
            )
    if facts.reward_range is not None and advantage.tolerance_band > 0:
        low, high = facts.reward_range
        if advantage.tolerance_band >= high - low:
            yield Finding(
                "tolerance_band_covers_all",
                "warn",
                f"advantage.tolerance_band {advantage.tolerance_band:g} is as wide as the rewards:"
                " no rollout gets a negative advantage",
            )
    winsorises = advantage.winsorise_low > 0 or advantage.winsorise_high < 1
    if facts.has_binary_rewards and winsorises:
        yield Finding(
            "winsorised_binary_rewards",
            "warn",
            "quantiles of 0/1 rewards are 0 or 1: winsorising does nothing, or erases the rarer "
            "outcome",
        )


def _kl_findings(kl: KlConfig, facts: RunFacts) -> Iterator[Finding]:
    if kl.place == "loss" and kl.kind == "k1" and kl.gradient == "own":
        yield Finding(
            "k1_in_loss",
            "warn",
            "k1 as a loss has zero expected gradient: it adds noise and holds nothing",
            "kl.gradient k2, or kl.place reward",
        )
    if kl.place == "loss" and kl.kind == "k3" and kl.gradient == "own":
        yield Finding(
            "k3_gradient",
            "note",
            "k3 as a loss pulls with the gradient of the forward KL, not of the reverse KL it "
            "estimates",
            "kl.gradient k2 for the reverse KL",
        )
    if kl.place == "reward" and kl.kind != "k1":
        yield Finding(
            "biased_kl_reward",
            "warn",
            f"{kl.kind} in the reward does not give the gradient of the KL; k1 does",
        )
    if kl.importance_corrected and facts.updates_per_rollout == 1 and kl.gradient == "k2":
        yield Finding(
            "kl_correction_cannot_act",
            "note",
            "with one update a rollout batch the ratio is 1: kl.importance_corrected never acts",
        )
    if kl.place != "none" and kl.beta == 0:
        yield Finding("kl_without_beta", "note", "kl.beta is 0: the KL is reported only")


def _mask_findings(mask: MaskConfig, facts: RunFacts) -> Iterator[Finding]:
    if mask.truncated == "drop" and facts.shapes_overlong:
        yield Finding(
            "overlong_masked_and_punished",
            "warn",
            "truncated completions are masked and punished: the punishment only moves their "
            "group's baseline",
            "choose mask.truncated drop or the overlong punishment",
        )
