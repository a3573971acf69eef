"""Stop strings: texts that end a completion besides the end-of-sequence ids."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from grpo_core.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

StopCheck = Callable[[Tensor], Tensor]
"""Completion ids so far [M, t] -> bool [M]: does the last one complete a stop string?"""


def stop_check(tokenizer: "PreTrainedTokenizerBase", stop: Sequence[str]) -> StopCheck | None:
    """Return a check for completions whose last token completes a stop string; None without any.

    The token that completes it stays in the completion; its text may run on past the stop string,
    which `PromptRenderer.decode` cuts off. The prompt is not looked at.

    Raises:
        ConfigError: An empty stop string, or one that no token of the vocabulary can complete.
    """
    if not stop:
        return None
    from transformers.generation.stopping_criteria import StopStringCriteria

    if not all(stop):
        raise ConfigError("prompt.stop holds an empty string, which would end every completion")
    try:
        criteria = StopStringCriteria(tokenizer, list(stop))
    except ValueError as error:
        raise ConfigError(
            f"prompt.stop {list(stop)}: no tokens of the vocabulary spell one of them: {error}"
        ) from error

    def check(completion_ids: Tensor) -> Tensor:
        matched: Tensor = criteria(completion_ids, None)
        return matched

    return check
