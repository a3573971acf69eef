"""Whether prompts and budgets fit into a model's context, asked before anything is sampled."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_core.config import RunConfig
from grpo_core.errors import ConfigError
from grpo_core.models.directory import CONFIG, read_settings, text_settings

if TYPE_CHECKING:
    from grpo_core.models.render import PromptRenderer

_LIMITS = ("max_position_embeddings", "n_positions", "max_sequence_length")
_HINT = "lower max_completion_tokens, or take a model with a longer context"
_LONGEST = 16
"""Prompts that are tried with every suffix: among the longest, which suffix is added hardly moves
the order."""


def budgets(config: RunConfig) -> dict[str, int]:
    """Setting → budget in tokens, of every phase and the evaluation."""
    phases = {
        f"train.phases.{index}.max_completion_tokens": phase.max_completion_tokens
        for index, phase in enumerate(config.train.phases)
    }
    return phases | {"evaluate.max_completion_tokens": config.evaluation_tokens}


def check_budgets(config: RunConfig, directory: Path) -> None:
    """Refuse a budget that leaves the prompt no token; reads config.json alone.

    Raises:
        ConfigError: Names the setting, its budget and the model's limit.
    """
    limit = context_limit(directory)
    for setting, budget in budgets(config).items():
        if limit is not None and budget >= limit:
            raise ConfigError(
                f"{setting}: {budget} leaves no token for the prompt in the context of model "
                f"{directory} (max_position_embeddings {limit})",
                _HINT,
            )


def context_limit(directory: Path) -> int | None:
    """Longest prompt plus completion that config.json allows; None when it names no limit.

    Raises:
        ConfigError: config.json cannot be read.
    """
    path = directory / CONFIG
    if not path.is_file():
        return None  # whoever loads the model says what is missing
    settings = read_settings(path)
    for section in (text_settings(settings), settings):
        for name in _LIMITS:
            if isinstance(section.get(name), int):
                return int(section[name])
    return None


def check_prompts(
    renderer: "PromptRenderer",
    problems: Iterable[tuple[str, str]],
    allowed: Mapping[str, int],
    limit: int,
    suffixes: Iterable[str] = (),
) -> int:
    """Refuse prompts that do not fit together with the largest budget.

    Args:
        renderer: Of the policy.
        problems: (id, text) of every problem that may be drawn.
        allowed: Setting → budget in tokens.
        limit: The model's context in tokens.
        suffixes: Instruction suffixes that a prompt may get.

    Returns:
        Tokens of the longest prompt; 0 without any.

    Raises:
        ConfigError: Names the prompt and its length, the setting with its budget, and the limit.
    """
    lengths = [(len(renderer.render(text)), name, text) for name, text in problems]
    longest = sorted(lengths, reverse=True)[:_LONGEST]
    longest += [
        (len(renderer.render(text, suffix)), name, text)
        for _, name, text in longest
        for suffix in suffixes
    ]
    if not longest:
        return 0
    length, name, _ = max(longest)
    setting, budget = max(allowed.items(), key=lambda item: item[1])
    if length + budget > limit:
        raise ConfigError(
            f"{setting}: the longest prompt ({name}) has {length} tokens and the budget is "
            f"{budget}, together {length + budget}, but the model's context is {limit} "
            "(max_position_embeddings)",
            f"{_HINT}, or drop long problems with prompts.max_characters",
        )
    return length
