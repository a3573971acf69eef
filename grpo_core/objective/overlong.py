"""Soft punishment of overlong completions; imports no torch."""

from grpo_core.errors import ConfigError


def overlong_penalty(length: int, *, max_length: int, buffer: int) -> float:
    """Returns what is added to the reward of a completion for its length, in [-1, 0].

    ```
    0                                      length <= max_length - buffer
    (max_length - buffer - length)/buffer  in between
    -1                                     length > max_length
    ```

    DAPO, arXiv 2503.14476, eq. 13. A buffer of 0 is a hard limit.

    Args:
        length: Sampled token ids, EOS included.
        max_length: Length from which the penalty is full; tokens.
        buffer: Tokens before it over which the penalty grows.

    Raises:
        ConfigError: A buffer outside [0, max_length].
    """
    if not 0 <= buffer <= max_length:
        raise ConfigError(f"overlong buffer: expected 0 to {max_length} tokens, got {buffer}")
    if length > max_length:
        return -1.0
    excess = length - (max_length - buffer)
    return -excess / buffer if excess > 0 else 0.0
