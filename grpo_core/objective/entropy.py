"""Entropy of the policy from logits, for the plain path and as a check of the chunked one."""

import torch
from torch import Tensor


def entropy_from_logits(logits: Tensor, *, temperature: float | Tensor = 1.0) -> Tensor:
    """Returns the entropy of softmax(logits / temperature), fp32 (fp64 for fp64), nats.

    Args:
        logits: [..., V].
        temperature: Number, or one a position, [...].
    """
    scaled = tempered(logits, temperature)
    logprobs = torch.log_softmax(scaled, dim=-1)
    # A logit of -inf has probability 0 and adds nothing; 0 x -inf would be NaN.
    terms = torch.where(logprobs == -torch.inf, 0.0, logprobs.exp() * logprobs)
    return -terms.sum(dim=-1)


def tempered(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """Returns logits / temperature in fp32, or fp64 for fp64 logits, [..., V]."""
    exact = logits if logits.dtype == torch.float64 else logits.to(torch.float32)
    if isinstance(temperature, Tensor):
        divisor = temperature.to(exact.device, exact.dtype)
        missing = exact.dim() - divisor.dim()
        return exact / divisor.reshape(divisor.shape + (1,) * missing)
    return exact / temperature
