"""Reward functions that the README shows; `reward.function` names one of them."""

import re
from typing import Any

from grpo_core.rewards import Label, Verdict, grade


def boxed_only(completion: str, problem: dict[str, Any]) -> Verdict:
    r"""Grade per sample: like the built-in verifier, but only answers in `\boxed{}` count."""
    if "\\boxed" not in completion:
        return Verdict(Label.UNPARSEABLE, 0.0, reason="no box")
    return grade(completion, problem["gold"], answer_type=problem["answer_type"])


def closeness(completions: list[str], problems: list[dict[str, Any]]) -> list[float | None]:
    """Score per batch: 1 for the gold, less the further the last number is from it.

    A reward model would be loaded once, at module level, and score the whole batch here.
    """
    return [
        _closeness(completion, problem["gold"])
        for completion, problem in zip(completions, problems, strict=True)
    ]


def _closeness(completion: str, gold: str) -> float | None:
    numbers = re.findall(r"-?\d+(?:\.\d+)?", completion.replace(",", ""))
    if not numbers:
        return 0.0
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", gold.replace(",", "")):
        return None  # no number to be close to: out of the baseline
    distance = abs(float(numbers[-1]) - float(gold.replace(",", "")))
    return 1.0 / (1.0 + distance)
