"""Log-probs of given completions, with and without gradient.

A row is prompt and completion without a gap, padded on the right. Under a causal mask nothing real
attends to the padding, so the model gets neither mask nor positions and takes its fastest kernels.

Shapes: N rows, S longest prompt + completion, T longest completion, M completion tokens in all,
H hidden size, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from grpo_core.errors import DataContractError
from grpo_core.models.head import FullLogits, Head, check_head
from grpo_core.models.modes import inference
from grpo_core.objective.logprobs import TokenLogprobs, token_logprobs
from grpo_core.objective.plain import plain_logprobs

TokenRow = tuple[Sequence[int], Sequence[int]]
"""Prompt ids and completion ids of one row."""

_PAD = 0
"""Fills the right of shorter rows; any id would do, no real token attends to it."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """A padded micro-batch.

    Args:
        input_ids: [N, S] int64, right-padded.
        completion_ids: [N, T] int64, right-padded.
        completion_mask: [N, T] bool, True on completion tokens: by length, never by id.
        prompt_lengths: [N] int64 tokens.
        temperatures: [N] fp32, > 0.
    """

    input_ids: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    prompt_lengths: Tensor
    temperatures: Tensor


def collate(
    rows: Sequence[TokenRow], temperatures: Sequence[float], device: torch.device | str = "cpu"
) -> TokenBatch:
    """Pad rows to the batch's longest.

    Args:
        rows: N pairs (prompt ids, completion ids); prompts are not empty.
        temperatures: N sampling temperatures.
        device: Where the tensors live.

    Raises:
        DataContractError: An empty prompt, or another number of temperatures than rows.
    """
    if len(rows) != len(temperatures):
        raise DataContractError(f"{len(rows)} rows but {len(temperatures)} temperatures")
    prompt_lengths = torch.tensor([len(prompt) for prompt, _ in rows], dtype=torch.int64)
    if not bool((prompt_lengths > 0).all()):
        raise DataContractError(f"row {int(prompt_lengths.argmin())}: empty prompt")
    lengths = torch.tensor([len(completion) for _, completion in rows], dtype=torch.int64)
    steps = torch.arange(int(lengths.max()) if len(rows) else 0)
    return TokenBatch(
        input_ids=_right_pad([[*prompt, *completion] for prompt, completion in rows]).to(device),
        completion_ids=_right_pad([completion for _, completion in rows]).to(device),
        completion_mask=(steps < lengths[:, None]).to(device),
        prompt_lengths=prompt_lengths.to(device),
        temperatures=torch.tensor(temperatures, dtype=torch.float32, device=device),
    )


def completion_logprobs(
    model: nn.Module,
    batch: TokenBatch,
    *,
    head: Head,
    chunk_tokens: int = 1024,
) -> TokenLogprobs:
    """Return log-probs (with gradient) and both entropies of every completion token.

    Hidden states are gathered at the positions that predict a completion token before the head is
    applied, so prompts and padding cost no logits.

    Args:
        model: The policy, in the caller's train/eval mode.
        batch: N rows.
        head: From `check_head(model)`, once per model.
        chunk_tokens: Completion tokens whose logits are alive at once.

    Returns:
        logprobs, policy_entropy_nats and sampling_entropy_nats, each [N, T] fp32; masked positions
        hold exactly 0.0.
    """
    row, step = batch.completion_mask.nonzero(as_tuple=True)
    position = batch.prompt_lengths[row] - 1 + step
    token_ids = batch.completion_ids[row, step]
    temperatures = batch.temperatures[row]
    if isinstance(head, FullLogits):
        logits = model(batch.input_ids, use_cache=False).logits[row, position]
        flat = plain_logprobs(logits, token_ids, temperature=temperatures)
    else:
        hidden = head.backbone(batch.input_ids, use_cache=False).last_hidden_state[row, position]
        flat = token_logprobs(
            hidden,
            head.weight,
            token_ids,
            temperature=temperatures,
            chunk_tokens=chunk_tokens,
            head=head.spec,
        )
    where = (row, step)
    padded = (flat_value.new_zeros(batch.completion_mask.shape) for flat_value in flat)
    return TokenLogprobs(*(zero.index_put(where, v) for zero, v in zip(padded, flat, strict=True)))


def score(
    model: nn.Module,
    rows: Sequence[TokenRow],
    temperatures: Sequence[float],
    *,
    rows_per_batch: int,
    head: Head | None = None,
    chunk_tokens: int = 1024,
) -> list[npt.NDArray[np.float32]]:
    """Return the log-probs of every completion token, without gradient.

    Rows are taken in the given order, `rows_per_batch` at a time, each batch padded to its longest:
    the work unit is the caller's choice and nothing else's. Sort by length to pad little.

    Args:
        model: The policy or the reference; evaluated in eval mode.
        rows: Pairs (prompt ids, completion ids).
        temperatures: Sampling temperature of each row.
        rows_per_batch: Rows in one forward pass.
        head: From `check_head(model)`; unset: checked here, in every call.
        chunk_tokens: Completion tokens whose logits are alive at once.

    Returns:
        One fp32 array [T] of nats per row, at the row's temperature.
    """
    head = head or check_head(model)
    device = next(model.parameters()).device
    scored: list[npt.NDArray[np.float32]] = []
    with inference(model):
        for start in range(0, len(rows), rows_per_batch):
            part = slice(start, start + rows_per_batch)
            batch = collate(rows[part], temperatures[part], device)
            result = completion_logprobs(model, batch, head=head, chunk_tokens=chunk_tokens)
            padded = result.logprobs.cpu().numpy()
            scored += [
                line[: len(completion)].copy()
                for line, (_, completion) in zip(padded, rows[part], strict=True)
            ]
    return scored


def _right_pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """[N, longest] int64."""
    padded = np.full((len(rows), max(map(len, rows), default=0)), _PAD, dtype=np.int64)
    for line, ids in zip(padded, rows, strict=True):
        line[: len(ids)] = ids
    return torch.from_numpy(padded)
