"""Drawing one token a row from logits with given uniforms.

Shapes: N rows, T positions, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

SEED_END = 1 << 128
"""Seeds are keys of Philox: whole numbers from 0 up to this."""
_LOW_64_BITS = (1 << 64) - 1


def uniform_streams(seeds: Sequence[int], num_positions: int) -> Tensor:
    """The uniforms of every row, all positions drawn up front.

    Row n is the Philox stream (counter-based) whose key is `seeds[n]`, so it depends on nothing
    else, and a longer budget only continues it. The 24-bit values lie in [0, 1 - 2^-24]. One
    generator is set to each key in turn: making a generator per row costs more than its numbers.

    Args:
        seeds: [N], each in [0, 2^128).
        num_positions: T.

    Returns:
        [N, T] fp32 on the CPU.
    """
    rows = np.empty((len(seeds), num_positions), dtype=np.float32)
    bits = np.random.Philox(key=0)
    generator, start = np.random.Generator(bits), bits.state
    for row, seed in zip(rows, seeds, strict=True):
        start["state"]["key"][:] = seed & _LOW_64_BITS, seed >> 64
        bits.state = start
        generator.random(out=row, dtype=np.float32)
    return torch.from_numpy(rows)


def draw_tokens(logits: Tensor, temperatures: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Sample by the inverse of the cumulative distribution; no filter, no hidden generator.

    The token is the first whose cumulative probability exceeds uniform x total. Because uniforms
    are below 1 by more than the rounding of that product, a token of probability 0 is never drawn.

    Args:
        logits: [N, V], any float dtype.
        temperatures: [N, 1] fp32, > 0.
        uniforms: [N, 1] fp32 in [0, 1).

    Returns:
        Token ids [N] and their log-probs [N] fp32, nats at the temperature, over all V. Rows whose
        logits hold NaN or +inf have a NaN log-prob.
    """
    logprobs = torch.log_softmax(logits.float() / temperatures, dim=-1)
    cumulative = logprobs.exp().cumsum_(dim=-1)
    threshold = uniforms * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, threshold, right=True)
    tokens.clamp_(max=logits.shape[-1] - 1)  # only NaN rows end past the last token
    return tokens.squeeze(1), logprobs.gather(1, tokens).squeeze(1)
