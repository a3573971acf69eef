"""Settings that nothing reads beside certain others: refused, so that no knob is a dead one.

The loss section refuses its own in `objective.presets.resolve_loss`, the KL section some in its
validator; what depends on several sections stands here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from grpo_core.config.run import RunConfig
from grpo_core.errors import ConfigError
from grpo_core.objective.presets import resolve_std


@dataclass(frozen=True, slots=True)
class Idle:
    """Settings that have no effect in a situation.

    Args:
        paths: Settings; one is refused when it differs from its default.
        situation: What makes them idle, as the message says it.
        holds: Whether a configuration is in the situation.
    """

    paths: tuple[str, ...]
    situation: str
    holds: Callable[[RunConfig], bool]


IDLE: tuple[Idle, ...] = (
    Idle(
        ("advantage.eps", "advantage.std_scope"),
        "advantages are not divided by a standard deviation",
        lambda config: resolve_std(config.advantage, config.loss) == "none",
    ),
    Idle(
        ("advantage.ema_decay",),
        "advantage.ema_weight is 0",
        lambda config: config.advantage.ema_weight == 0,
    ),
    Idle(
        ("mask.repeat_free_count",),
        "mask.repeat_ngram_tokens is unset",
        lambda config: config.mask.repeat_ngram_tokens is None,
    ),
    Idle(
        ("kl.kind", "kl.step_end_weight", "kl.conclusion_weight", "kl.relax_start"),
        "kl.place is none",
        lambda config: config.kl.place == "none",
    ),
    Idle(("kl.log",), "kl.place is not none", lambda config: config.kl.place != "none"),
    Idle(
        ("kl.relax_start", "kl.step_end_weight", "kl.conclusion_weight"),
        "kl.beta is 0",
        lambda config: config.kl.beta == 0,
    ),
    Idle(
        ("kl.conclusion_tokens",),
        "kl.conclusion_weight is 1",
        lambda config: config.kl.conclusion_weight == 1,
    ),
    Idle(
        tuple(f"kl.budget.{name}" for name in ("ema_decay", "factor", "beta_min", "beta_max")),
        "kl.budget.nats is unset",
        lambda config: config.kl.budget.nats is None,
    ),
    Idle(
        ("filter.tolerance",),
        "filter.zero_variance is false",
        lambda config: not config.filter.zero_variance,
    ),
    Idle(
        ("reward.overlong_buffer_share",),
        "reward.overlong_weight is 0",
        lambda config: config.reward.overlong_weight == 0,
    ),
    Idle(
        ("reward.rules.repetition_ngram",),
        "reward.rules.repetition_weight is 0",
        lambda config: config.reward.rules.repetition_weight == 0,
    ),
    Idle(
        ("reward.rules.language_script",),
        "reward.rules.language_weight is 0",
        lambda config: config.reward.rules.language_weight == 0,
    ),
    Idle(
        ("reward.similarity_weight",),
        "reward.process_credit is false",
        lambda config: not config.reward.process_credit,
    ),
)


def check_idle(config: RunConfig) -> None:
    """Raise ConfigError for the first setting that differs from its default and acts on nothing."""
    for idle in IDLE:
        if not idle.holds(config):
            continue
        for path in idle.paths:
            value, default = _value_and_default(config, path)
            if value != default:
                raise ConfigError(
                    f"{path}: {value!r} has no effect while {idle.situation}",
                    hint=f"leave {path} out, or change the other",
                )


def _value_and_default(config: RunConfig, path: str) -> tuple[Any, Any]:
    section: BaseModel = config
    *parents, name = path.split(".")
    for parent in parents:
        section = getattr(section, parent)
    return getattr(section, name), type(section).model_fields[name].default
