"""From verdicts to shaped rewards; every part is stored beside the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_core.config import RunConfig
from grpo_core.rewards import Verdict, overlong_penalty
from grpo_core.rewards.process import GradedRules, reward_graded
from grpo_core.rewards.shaping import (
    base_reward,
    format_credit,
    language_consistency,
    length_bonus,
    repetition_penalty,
    shaped_reward,
)


@dataclass(frozen=True, slots=True)
class ShapedReward:
    """One rollout's reward in parts; each part is already weighted, and they add up to the total.

    Args:
        graded: Verdict with process credit, None when it is off or the verdict is null.
        base: Verdict or graded reward on the configured scale; None for a null verdict.
        overlong: Soft overlong penalty, <= 0.
        repetition: Repetition penalty, <= 0.
        format: Format credit, >= 0, only with a parsed answer.
        language: Penalty for letters of other scripts, <= 0.
        length: Bonus for unused budget, >= 0, only with a correct verdict.
        total: The shaped reward before any KL; None for a null verdict.
    """

    graded: float | None
    base: float | None
    overlong: float
    repetition: float
    format: float
    language: float
    length: float
    total: float | None


@dataclass(frozen=True, slots=True)
class Completion:
    """What shaping looks at besides the verdict."""

    text: str
    token_ids: Sequence[int]
    problem_text: str
    solution: str | None


def shape_reward(
    config: RunConfig, verdict: Verdict, completion: Completion, *, max_completion_tokens: int
) -> ShapedReward:
    """Add the configured parts to a verdict.

    Args:
        config: Reads the reward section.
        verdict: Of the completion.
        completion: Text, ids and problem.
        max_completion_tokens: Budget of the phase.
    """
    reward = config.reward
    graded = None
    if reward.process_credit:
        graded = reward_graded(
            verdict,
            completion.text,
            problem=completion.problem_text,
            reference=completion.solution,
            rules=GradedRules(similarity_weight=reward.similarity_weight),
        )
    weights = {
        "overlong": reward.overlong_factor,
        "repetition": reward.rules.repetition_weight,
        "format": reward.rules.format_weight,
        "language": reward.rules.language_weight,
        "length": reward.rules.length_weight,
    }
    values = _part_values(config, verdict, completion, max_completion_tokens)
    base = base_reward(
        graded if reward.process_credit else verdict.reward_raw,
        verdict.label,
        scale=reward.scale,
        hedged_value=reward.hedged_value,
    )
    total = shaped_reward(base, values, weights, scale=reward.scale)
    parts = {name: weights[name] * values[name] if weights[name] else 0.0 for name in weights}
    if base is not None and total is not None:
        _fit_rule_parts(parts, total - base)
    return ShapedReward(graded=graded, base=base, total=total, **parts)


def _fit_rule_parts(parts: dict[str, float], change: float) -> None:
    """Scale the rule parts so that all parts add up to `change`, which caps the rule parts."""
    rules = [name for name in parts if name != "overlong"]
    together = sum(parts[name] for name in rules)
    allowed = change - parts["overlong"]
    if together and not math.isclose(together, allowed, abs_tol=1e-12):
        for name in rules:
            parts[name] *= allowed / together


def _part_values(
    config: RunConfig, verdict: Verdict, completion: Completion, max_completion_tokens: int
) -> dict[str, float]:
    """Value of each part before its weight."""
    reward, length = config.reward, len(completion.token_ids)
    script = language_consistency(completion.text, script=reward.rules.language_script)
    return {
        "overlong": overlong_penalty(
            length,
            max_length=max_completion_tokens,
            buffer=int(reward.overlong_buffer_share * max_completion_tokens),
        ),
        "repetition": repetition_penalty(completion.token_ids, ngram=reward.rules.repetition_ngram),
        "format": format_credit(completion.text, verdict, answer_format=reward.rules.answer_format),
        "language": script - 1.0,
        "length": length_bonus(length, verdict, max_length=max_completion_tokens),
    }
