"""The plain path: log-probs and entropies from a model's own logits, which needs their memory.

Shapes: V vocabulary.
"""

import torch
from torch import Tensor

from grpo_core.objective.entropy import entropy_from_logits, tempered
from grpo_core.objective.logprobs import TokenLogprobs


def plain_logprobs(
    logits: Tensor, token_ids: Tensor, *, temperature: float | Tensor = 1.0
) -> TokenLogprobs:
    """Returns the same as `token_logprobs` from logits, for heads that no `HeadSpec` describes.

    Args:
        logits: [..., V], any floating dtype.
        token_ids: [...], int.
        temperature: Number, or one a row: its shape is a prefix of token_ids' shape.
    """
    logprobs = torch.log_softmax(tempered(logits, temperature), dim=-1)
    chosen = logprobs.gather(-1, token_ids.to(torch.int64).unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy = entropy_from_logits(logits)
        sampling_entropy = entropy_from_logits(logits, temperature=temperature)
    return TokenLogprobs(chosen, entropy, sampling_entropy)
