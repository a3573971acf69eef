"""Published methods as presets over orthogonal options; imports no torch."""

from dataclasses import dataclass, replace
from types import MappingProxyType

from grpo_core.errors import ConfigError
from grpo_core.objective.config import (
    AdvantageConfig,
    Aggregation,
    LossConfig,
    Method,
    RatioLevel,
    SamplerCorrection,
    Std,
    Surrogate,
)


@dataclass(frozen=True)
class Preset:
    """What a paper fixes under its method's name.

    Attributes:
        source: Paper and equation.
        std: Divisor of the advantages.
        ratio: Level of the importance ratio.
        surrogate: Form of the policy term.
        clip_low: Ratio is kept above 1 - clip_low; None where the form does not clip below.
        clip_high: Ratio is kept below 1 + clip_high; None where an absolute cap is used.
        ratio_cap: Absolute cap of the weighted surrogate.
        aggregation: How token losses become one number.
        drops_zero_variance: The paper resamples groups without signal.
        shapes_overlong: The paper lowers the reward of overlong completions.
    """

    source: str
    std: Std
    ratio: RatioLevel
    surrogate: Surrogate
    clip_low: float | None
    clip_high: float | None
    ratio_cap: float | None
    aggregation: Aggregation
    drops_zero_variance: bool = False
    shapes_overlong: bool = False


_GRPO = Preset(
    source="DeepSeekMath, arXiv 2402.03300, eq. 3",
    std="sample",
    ratio="token",
    surrogate="clipped",
    clip_low=0.2,
    clip_high=0.2,
    ratio_cap=None,
    aggregation="sequence_mean",
)
_GSPO = replace(
    _GRPO,
    source="GSPO, arXiv 2507.18071, eq. 5 and 7",
    ratio="sequence",
    clip_low=3e-4,
    clip_high=4e-4,
)

PRESETS: MappingProxyType[Method, Preset] = MappingProxyType(
    {
        "grpo": _GRPO,
        "dapo": replace(
            _GRPO,
            source="DAPO, arXiv 2503.14476, eq. 8",
            clip_high=0.28,
            aggregation="token_mean",
            drops_zero_variance=True,
            shapes_overlong=True,
        ),
        "dr_grpo": replace(
            _GRPO,
            source="Dr. GRPO, arXiv 2503.20783, section 3.2",
            std="none",
            aggregation="constant_length",
        ),
        "gspo": _GSPO,
        "gspo_token": replace(
            _GSPO, source="GSPO, arXiv 2507.18071, eq. 13 and 14", ratio="sequence_token"
        ),
        "cispo": replace(
            _GRPO,
            source="MiniMax-M1, arXiv 2506.13585, eq. 4 and 5; cap of ScaleRL, arXiv 2510.13786",
            surrogate="weighted",
            clip_low=None,
            clip_high=None,
            ratio_cap=5.0,
            aggregation="token_mean",
        ),
    }
)

_CORRECTION_BOUNDS: MappingProxyType[SamplerCorrection, tuple[float, float]] = MappingProxyType(
    {
        "none": (0.0, float("inf")),
        "token_truncated": (0.0, 2.0),
        "token_masked": (0.5, 2.0),
        "geometric_mask": (0.99, 1.01),
        "product_mask": (1 / 3, 3.0),
    }
)


@dataclass(frozen=True)
class ResolvedLoss:
    """A loss configuration with every option filled in; fields as in `LossConfig`."""

    method: Method
    ratio: RatioLevel
    surrogate: Surrogate
    clip_low: float | None
    clip_high: float | None
    dual_clip: float | None
    ratio_cap: float | None
    aggregation: Aggregation
    constant_length_tokens: int | None
    sampler_correction: SamplerCorrection
    correction_low: float
    correction_cap: float
    off_policy_mask_nats: float | None


def resolve_loss(
    config: LossConfig, *, longest_completion_tokens: int | None = None
) -> ResolvedLoss:
    """Returns the options that the loss runs with.

    Args:
        config: The configured loss; unset options take the preset's value.
        longest_completion_tokens: The longest phase's completion budget, the constant of
            `constant_length` where the configuration names none.

    Raises:
        ConfigError: An option is set that the resolved form never reads, or the constant of
            `constant_length` is missing.
    """
    preset = PRESETS[config.method]
    surrogate = config.surrogate or preset.surrogate
    aggregation = config.aggregation or preset.aggregation
    _refuse_idle_options(config, surrogate, aggregation)
    low, cap = _CORRECTION_BOUNDS[config.sampler_correction]
    clipped = surrogate == "clipped"
    resolved = ResolvedLoss(
        method=config.method,
        ratio=config.ratio or preset.ratio,
        surrogate=surrogate,
        clip_low=_first(config.clip_low, preset.clip_low, 0.2) if clipped else None,
        clip_high=_first(config.clip_high, preset.clip_high, 0.2) if clipped else None,
        dual_clip=config.dual_clip,
        ratio_cap=None if clipped else _first(config.ratio_cap, preset.ratio_cap, 5.0),
        aggregation=aggregation,
        constant_length_tokens=_constant_length(config, aggregation, longest_completion_tokens),
        sampler_correction=config.sampler_correction,
        correction_low=_first(config.correction_low, low),
        correction_cap=_first(config.correction_cap, cap),
        off_policy_mask_nats=config.off_policy_mask_nats,
    )
    if resolved.correction_low > resolved.correction_cap:
        raise ConfigError(
            f"loss.correction_low {resolved.correction_low} exceeds "
            f"correction_cap {resolved.correction_cap}"
        )
    return resolved


def resolve_std(advantage: AdvantageConfig, loss: LossConfig) -> Std:
    """Returns the divisor of the advantages: the configured one, else the loss preset's."""
    return advantage.std or PRESETS[loss.method].std


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _constant_length(
    config: LossConfig, aggregation: Aggregation, longest_completion_tokens: int | None
) -> int | None:
    if aggregation != "constant_length":
        return None
    length = config.constant_length_tokens or longest_completion_tokens
    if length is None:
        raise ConfigError(
            "loss.aggregation constant_length needs loss.constant_length_tokens",
            "set it to the longest phase's completion budget and keep it for all phases",
        )
    return length


def _refuse_idle_options(config: LossConfig, surrogate: str, aggregation: str) -> None:
    """Raises ConfigError for an option that would be read by nothing."""
    correction = config.sampler_correction
    idle = {
        "clip_low": surrogate != "clipped",
        "clip_high": surrogate != "clipped",
        "dual_clip": surrogate != "clipped",
        "ratio_cap": surrogate != "weighted",
        "constant_length_tokens": aggregation != "constant_length",
        "correction_low": correction in ("none", "token_truncated"),
        "correction_cap": correction == "none",
    }
    for field, is_idle in idle.items():
        if is_idle and getattr(config, field) is not None:
            raise ConfigError(
                f"loss.{field} has no effect with surrogate {surrogate}, "
                f"aggregation {aggregation} and sampler_correction {correction}",
                f"unset loss.{field} or choose the option that reads it",
            )
