"""Which head a model has, proved on its own logits, and the plain path for all others.

Shapes: M tokens, H hidden size, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.objective.entropy import entropy_from_logits, tempered
from grpo_core.objective.logprobs import HeadSpec, TokenLogprobs
from grpo_core.objective.projection import Head

_SOFTCAPS = ("final_logit_softcapping",)
_FACTORS = ("logit_scale", "logits_scaling", "lm_head_multiplier", "output_multiplier")
_DIVISORS = ("logits_scaling",)
_ROUNDING: Mapping[torch.dtype, float] = {torch.float64: 1e-9, torch.float32: 1e-4}
_HALF_ROUNDING = 2e-2


@dataclass(frozen=True)
class HeadMatch:
    """The head that reproduces a model's logits, if any does.

    Attributes:
        spec: For `token_logprobs`; None: take `plain_logprobs` on the model's own logits.
        max_error: Largest difference of the best candidate, over the largest logit.
        tolerance: What passes, from the dtype that the model computes its logits in.
    """

    spec: HeadSpec | None
    max_error: float
    tolerance: float


def match_head(
    logits: Tensor,
    hidden: Tensor,
    lm_head_weight: Tensor,
    *,
    bias: Tensor | None = None,
    attributes: Mapping[str, object] | None = None,
) -> HeadMatch:
    """Returns the head that turns hidden states into a model's own logits.

    Candidates are the plain product and what the model's configuration declares: soft-cap, scale
    as factor or divisor. None is believed before it has reproduced the logits.

    Args:
        logits: Of the model, [M, V]; a few dozen rows are enough.
        hidden: Last hidden states that they came from, [M, H].
        lm_head_weight: [V, H].
        bias: Of the head, [V].
        attributes: The model's configuration; reads the known names of soft-cap and scale.
    """
    own = logits.detach().to(torch.float64)
    tolerance = _ROUNDING.get(logits.dtype, _HALF_ROUNDING)
    best = HeadMatch(None, float("inf"), tolerance)
    for spec in _candidates(attributes or {}, bias):
        error = _relative_error(own, hidden.detach(), lm_head_weight.detach(), spec)
        if error < best.max_error:
            best = HeadMatch(spec if error <= tolerance else None, error, tolerance)
    return best


def plain_logprobs(
    logits: Tensor, token_ids: Tensor, *, temperature: float | Tensor = 1.0
) -> TokenLogprobs:
    """Returns the same as `token_logprobs` from a model's own logits; needs their memory.

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


def _candidates(attributes: Mapping[str, object], bias: Tensor | None) -> Iterator[HeadSpec]:
    softcaps = [_number(attributes, name) for name in _SOFTCAPS]
    factors = [_number(attributes, name) for name in _FACTORS]
    divisors = [_number(attributes, name) for name in _DIVISORS]
    scales = {1.0, *(x for x in factors if x), *(1.0 / x for x in divisors if x)}
    for scale in sorted(scales, key=lambda x: (x != 1.0, x)):
        for softcap in dict.fromkeys([*softcaps, None]):
            yield HeadSpec(scale=scale, softcap=softcap, bias=bias)


def _number(attributes: Mapping[str, object], name: str) -> float | None:
    value = attributes.get(name)
    return float(value) if isinstance(value, (int, float)) and value else None


def _relative_error(own: Tensor, hidden: Tensor, weight: Tensor, spec: HeadSpec) -> float:
    head = Head(weight, spec.bias, spec.scale, spec.softcap)
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    rows = hidden.to(exact) * spec.scale
    with torch.no_grad():
        made = head.logits(rows, 0, weight.shape[0], torch.empty(own.shape, dtype=exact))
    scale = own.abs().max().clamp(min=1e-30)
    return float((made.to(torch.float64) - own).abs().max() / scale)
