"""Log-probs and entropies of sampled tokens without the logits tensor.

Logits exist for `chunk_tokens` rows at a time. The gradient to the hidden states needs no second
projection: up to the incoming scalar of each token it is known in the forward pass.

Shapes: M tokens (any leading shape outside), H hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from grpo_core.errors import DataContractError
from grpo_core.objective.batch import check_shape
from grpo_core.objective.projection import Head, ProjectionPlan, backward_head, forward_rows


class TokenLogprobs(NamedTuple):
    """Results a token, fp32, in the shape of the token ids.

    Attributes:
        logprobs: At the sampling temperature, with gradient; nats.
        policy_entropy_nats: At temperature 1, without gradient.
        sampling_entropy_nats: At the sampling temperature, without gradient.
    """

    logprobs: Tensor
    policy_entropy_nats: Tensor
    sampling_entropy_nats: Tensor


@dataclass(frozen=True)
class HeadSpec:
    """What a language-model head does besides the product with its weight.

    logits = softcap(scale x (hidden @ weight^T) + bias), softcap(z) = c tanh(z / c).

    Attributes:
        scale: Factor on the product (Cohere `logit_scale`, Granite 1 / `logits_scaling`).
        softcap: c (Gemma `final_logit_softcapping`); None: off.
        bias: [V]; None: off.
    """

    scale: float = 1.0
    softcap: float | None = None
    bias: Tensor | None = None


def selective_logprobs(
    hidden: Tensor,
    lm_head_weight: Tensor,
    token_ids: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    chunk_tokens: int = 256,
    head: HeadSpec | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the log-prob of each token and the policy's entropy at temperature 1.

    See `token_logprobs`, which also returns the entropy at the sampling temperature.
    """
    result = token_logprobs(
        hidden,
        lm_head_weight,
        token_ids,
        temperature=temperature,
        chunk_tokens=chunk_tokens,
        head=head,
    )
    return result.logprobs, result.policy_entropy_nats


def token_logprobs(
    hidden: Tensor,
    lm_head_weight: Tensor,
    token_ids: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    chunk_tokens: int = 256,
    head: HeadSpec | None = None,
) -> TokenLogprobs:
    """Returns log_softmax(logits / temperature) at the token ids, and both entropies.

    Everything is computed in fp32 (fp64 for fp64 hidden states); weights of another dtype are
    cast block by block. Gradients flow to hidden states, weight and bias. Tokens without an
    incoming gradient cost nothing in the backward pass and leak nothing.

    Args:
        hidden: Last hidden states at the positions that predict the tokens, [..., H].
        lm_head_weight: [V, H], any floating dtype.
        token_ids: [...], int.
        temperature: Number, or one a row: its shape is a prefix of token_ids' shape.
        chunk_tokens: Rows whose logits are alive at once.
        head: Scale, soft-cap and bias of the head; unset: none of them.

    Raises:
        DataContractError: Shapes do not fit, an id is outside the vocabulary, or a temperature
            is not positive.
    """
    spec = head or HeadSpec()
    shape = tuple(token_ids.shape)
    vocabulary, width = lm_head_weight.shape
    check_shape("hidden", hidden, (*shape, width))
    ids = token_ids.reshape(-1).to(torch.int64)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise DataContractError(f"token_ids: expected 0 or more and below {vocabulary}")
    if chunk_tokens < 1:
        raise DataContractError(f"chunk_tokens: expected at least 1, got {chunk_tokens}")
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    inverse = _inverse_temperature(temperature, shape, exact, hidden.device)
    plan = ProjectionPlan.for_device(hidden.device, chunk_tokens, vocabulary, exact)
    grad = torch.is_grad_enabled()
    flat = _SelectiveLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden.reshape(-1, width), lm_head_weight, spec.bias, ids, inverse, spec, plan, grad
    )
    return TokenLogprobs(*(result.reshape(shape) for result in flat))


class _SelectiveLogprobs(torch.autograd.Function):
    """Chunked forward; backward by the saved row gradients and one recomputed projection."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ids: Tensor,
        inverse: Tensor,
        spec: HeadSpec,
        plan: ProjectionPlan,
        grad: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        needs_hidden = grad and hidden.requires_grad
        needs_head = grad and (weight.requires_grad or (bias is not None and bias.requires_grad))
        head = Head(weight, bias, spec.scale, spec.softcap)
        with torch.autocast(hidden.device.type, enabled=False):
            rows = forward_rows(hidden, head, ids, inverse, plan, needs_hidden)
        saved = (hidden, rows.offset, rows.log_sum) if needs_head else (None, None, None)
        ctx.save_for_backward(weight, bias, ids, inverse, rows.row_gradient, *saved)
        ctx.spec, ctx.plan, ctx.hidden_dtype = spec, plan, hidden.dtype
        ctx.mark_non_differentiable(rows.entropy, rows.tempered_entropy)
        return rows.logprobs, rows.entropy, rows.tempered_entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        weight, bias, ids, inverse, row_gradient, hidden, offset, log_sum = ctx.saved_tensors
        alive = incoming.nonzero().flatten()
        to_hidden = to_weight = to_bias = None
        if row_gradient is not None and ctx.needs_input_grad[0]:
            to_hidden = torch.zeros_like(row_gradient, dtype=ctx.hidden_dtype)
            product = incoming[alive].unsqueeze(1) * row_gradient[alive]
            to_hidden[alive] = product.to(ctx.hidden_dtype)
        if hidden is not None and (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            head = Head(weight, bias, ctx.spec.scale, ctx.spec.softcap)
            with torch.autocast(hidden.device.type, enabled=False):
                to_weight, to_bias = backward_head(
                    hidden[alive],
                    head,
                    ids[alive],
                    inverse[alive],
                    offset[alive],
                    log_sum[alive],
                    incoming[alive],
                    ctx.plan,
                )
        if not ctx.needs_input_grad[1]:
            to_weight = None
        if not ctx.needs_input_grad[2]:
            to_bias = None
        return to_hidden, to_weight, to_bias, None, None, None, None, None


def _inverse_temperature(
    temperature: float | Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Returns 1 / temperature of each token, [M]."""
    value = torch.as_tensor(temperature, dtype=dtype, device=device)
    if tuple(value.shape) != shape[: value.dim()]:
        raise DataContractError(
            f"temperature: expected a number or a prefix of shape {list(shape)}, "
            f"got {list(value.shape)}"
        )
    if not bool((value > 0).all()):
        raise DataContractError("temperature: expected positive numbers")
    padded = value.reshape(tuple(value.shape) + (1,) * (len(shape) - value.dim()))
    return (1.0 / padded).expand(shape).reshape(-1)
