"""The chunked projection behind `logprobs`: rows in the forward pass, vocabulary in the backward.

Shapes: M tokens, H hidden size, V vocabulary; c rows of a chunk, b columns of a block.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ProjectionPlan:
    """Sizes and dtype of the computation.

    Attributes:
        chunk_rows: Rows whose logits are alive at once.
        block_columns: Vocabulary columns handled at once inside a chunk.
        buffer_elements: Logits that may be alive at once.
        dtype: Of all arithmetic.
    """

    chunk_rows: int
    block_columns: int
    buffer_elements: int
    dtype: torch.dtype

    @classmethod
    def for_device(
        cls, device: torch.device, chunk_rows: int, vocabulary: int, dtype: torch.dtype
    ) -> "ProjectionPlan":
        """Returns a plan: blocks that stay in a CPU's cache, whole rows on an accelerator."""
        block = 4096 if device.type == "cpu" else vocabulary
        return cls(chunk_rows, max(1, min(block, vocabulary)), chunk_rows * vocabulary, dtype)


@dataclass(frozen=True)
class Head:
    """logits = softcap(scale x (hidden @ weight^T) + bias).

    Attributes:
        weight: [V, H], any floating dtype.
        bias: [V] or None.
        scale: Factor on the product.
        softcap: c of c tanh(z / c), or None.
    """

    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None

    def logits(self, rows: Tensor, start: int, stop: int, out: Tensor) -> Tensor:
        """Writes logits of scaled rows [c, H] for columns start .. stop to `out`, [c, b]."""
        torch.mm(rows, self.weight[start:stop].to(rows.dtype).t(), out=out)
        if self.bias is not None:
            out.add_(self.bias[start:stop].to(rows.dtype))
        if self.softcap is not None:
            out.div_(self.softcap).tanh_().mul_(self.softcap)
        return out

    def slope(self, logits: Tensor) -> Tensor | float:
        """Returns the derivative of the soft-cap at its own outputs."""
        return 1.0 if self.softcap is None else 1.0 - (logits / self.softcap).square()


@dataclass(frozen=True)
class RowResults:
    """Results a token, [M]; `row_gradient` is d logprob / d hidden, [M, H], where asked for.

    `offset` is the largest logit and `log_sum` the log of the sum of
    exp((logit - offset) / temperature).
    """

    logprobs: Tensor
    entropy: Tensor
    tempered_entropy: Tensor
    offset: Tensor
    log_sum: Tensor
    row_gradient: Tensor | None


@dataclass(frozen=True)
class _Sums:
    """Running sums over the vocabulary of one chunk, [c, 1], at temperature 1 or as sampled."""

    weight: Tensor
    moment: Tensor

    @classmethod
    def zeros(cls, like: Tensor) -> "_Sums":
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def add(self, exponent: Tensor, weight: Tensor) -> None:
        self.weight.add_(weight.sum(dim=1, keepdim=True))
        # A logit of -inf has weight 0; its product with the exponent would be NaN.
        product = torch.mul(weight, exponent).nan_to_num_(nan=0.0)
        self.moment.add_(product.sum(dim=1, keepdim=True))

    def entropy(self) -> Tensor:
        return (self.weight.log() - self.moment / self.weight).squeeze(1)


def forward_rows(
    hidden: Tensor,
    head: Head,
    ids: Tensor,
    inverse: Tensor,
    plan: ProjectionPlan,
    needs_gradient: bool,
) -> RowResults:
    """Returns log-probs, entropies and, where asked for, row gradients, chunk by chunk.

    Args:
        hidden: [M, H].
        head: The language-model head.
        ids: Sampled tokens, int64 [M].
        inverse: 1 / temperature, [M].
        plan: Sizes and dtype.
        needs_gradient: Compute d logprob / d hidden.
    """
    count, width = hidden.shape
    vocabulary = head.weight.shape[0]
    results = hidden.new_empty((5, count), dtype=plan.dtype)
    gradient = hidden.new_empty((count, width), dtype=plan.dtype) if needs_gradient else None
    buffer = hidden.new_empty((min(plan.chunk_rows, count), vocabulary), dtype=plan.dtype)
    tempered = bool((inverse != 1).any())
    for start in range(0, count, plan.chunk_rows):
        rows = slice(start, min(start + plan.chunk_rows, count))
        scaled = hidden[rows].to(plan.dtype) * head.scale
        logits = buffer[: scaled.shape[0]]
        offset = _project(scaled, head, logits, plan)
        factor, target = inverse[rows].unsqueeze(1), ids[rows].unsqueeze(1)
        chosen = logits.gather(1, target)
        plain, sampled = _sum_exponentials(
            logits, offset, factor if tempered else None, head, plan, keep=needs_gradient
        )
        results[0, rows] = ((chosen - offset) * factor - sampled.weight.log()).squeeze(1)
        results[1, rows] = plain.entropy()
        results[2, rows] = sampled.entropy()
        results[3, rows] = offset.squeeze(1)
        results[4, rows] = sampled.weight.log().squeeze(1)
        if gradient is not None:
            logits.scatter_add_(1, target, -sampled.weight * head.slope(chosen))
            _times_weight(logits, head, plan, out=gradient[rows])
            gradient[rows] *= -head.scale * factor / sampled.weight
    return RowResults(results[0], results[1], results[2], results[3], results[4], gradient)


def backward_head(
    hidden: Tensor,
    head: Head,
    ids: Tensor,
    inverse: Tensor,
    offset: Tensor,
    log_sum: Tensor,
    incoming: Tensor,
    plan: ProjectionPlan,
) -> tuple[Tensor, Tensor | None]:
    """Returns the gradients of weight [V, H] and bias [V], in their dtypes, block by block.

    Args:
        hidden: Rows with an incoming gradient, [M, H].
        head: The language-model head.
        ids: Sampled tokens, int64 [M].
        inverse: 1 / temperature, [M].
        offset: Largest logit of each row, [M].
        log_sum: As in `RowResults`, [M].
        incoming: Gradient of each log-prob, [M].
        plan: Sizes and dtype.
    """
    count, vocabulary = hidden.shape[0], head.weight.shape[0]
    to_bias = torch.zeros_like(head.bias) if head.bias is not None else None
    if count == 0:
        return torch.zeros_like(head.weight), to_bias
    to_weight = torch.empty_like(head.weight)
    scaled = hidden.to(plan.dtype) * head.scale
    factor = inverse.unsqueeze(1)
    pull = (-incoming.to(plan.dtype) * inverse).unsqueeze(1)
    pulled = scaled * pull
    columns = max(1, min(vocabulary, plan.buffer_elements // count))
    buffer = hidden.new_empty(count * columns, dtype=plan.dtype)
    for start in range(0, vocabulary, columns):
        stop = min(start + columns, vocabulary)
        block = buffer[: count * (stop - start)].view(count, stop - start)
        head.logits(scaled, start, stop, out=block)
        slope = head.slope(block)
        block.sub_(offset.unsqueeze(1)).mul_(factor).sub_(log_sum.unsqueeze(1)).exp_()
        hit = ((ids >= start) & (ids < stop)).nonzero().flatten()
        block[hit, ids[hit] - start] -= 1.0
        if isinstance(slope, Tensor):
            block.mul_(slope)
        _product(block.t(), pulled, out=to_weight[start:stop])
        if to_bias is not None:
            to_bias[start:stop] = (block.t() @ pull).squeeze(1)
    return to_weight, to_bias


def _project(rows: Tensor, head: Head, out: Tensor, plan: ProjectionPlan) -> Tensor:
    """Writes the logits of a chunk to `out` [c, V] and returns their maximum, [c, 1]."""
    highest = rows.new_full((rows.shape[0], 1), -torch.inf)
    for start in range(0, out.shape[1], plan.block_columns):
        stop = min(start + plan.block_columns, out.shape[1])
        block = head.logits(rows, start, stop, out=out[:, start:stop])
        highest = torch.maximum(highest, block.amax(dim=1, keepdim=True))
    return highest


def _sum_exponentials(
    logits: Tensor,
    offset: Tensor,
    factor: Tensor | None,
    head: Head,
    plan: ProjectionPlan,
    *,
    keep: bool,
) -> tuple[_Sums, _Sums]:
    """Returns the sums at temperature 1 and as sampled.

    With `keep`, the logits are overwritten by exp((logit - offset) / temperature) x slope.
    """
    plain = _Sums.zeros(offset)
    sampled = plain if factor is None else _Sums.zeros(offset)
    for start in range(0, logits.shape[1], plan.block_columns):
        block = logits[:, start : start + plan.block_columns]
        slope = head.slope(block)
        exponent = block - offset
        weight = exponent.exp()
        plain.add(exponent, weight)
        if factor is not None:
            exponent = exponent.mul_(factor)
            weight = torch.exp(exponent, out=weight)
            sampled.add(exponent, weight)
        if keep:
            torch.mul(weight, slope, out=block)
    return plain, sampled


def _product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Writes left @ right to `out`, through a temporary only where the dtype differs."""
    if out.dtype == left.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)


def _times_weight(values: Tensor, head: Head, plan: ProjectionPlan, out: Tensor) -> None:
    """Writes values [c, V] @ weight [V, H] to `out`, casting the weight block by block."""
    if head.weight.dtype == values.dtype:
        torch.mm(values, head.weight, out=out)
        return
    out.zero_()
    for start in range(0, values.shape[1], plan.block_columns):
        stop = min(start + plan.block_columns, values.shape[1])
        out.addmm_(values[:, start:stop], head.weight[start:stop].to(values.dtype))
