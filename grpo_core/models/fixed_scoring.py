"""Scoring in passes of fixed shape: the bits of a row are a function of the row alone.

Padding and company move log-probs by about 1e-5: another padded length or number of rows makes the
matrix products run in another order. Here a row is padded to a length that its own length decides,
every pass of that length has the same number of rows (empty ones fill the last pass), and the head
always sees the same number of positions. So a cached row never depends on what it was scored with,
and only rows that are missing need to be scored.

Shapes: N rows, R rows a pass, S padded length, T completion tokens, M completion tokens of a pass.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from grpo_core.errors import DataContractError
from grpo_core.models.head import FullLogits, Head
from grpo_core.models.modes import inference
from grpo_core.models.scoring import TokenRow
from grpo_core.objective.logprobs import token_logprobs

TOKENS_PER_PASS = 2048
"""Padded tokens of one forward pass; one row where a row is longer."""
HEAD_POSITIONS = 512
"""Positions whose logits exist at the same time."""
_SMALLEST_STEP = 16


def padded_length(num_tokens: int) -> int:
    """Length that a row is padded to: the next multiple of 16, of S/16 … S/8 from 256 on."""
    step = max(_SMALLEST_STEP, 1 << max(num_tokens.bit_length() - 4, 0))
    return -(-num_tokens // step) * step


def rows_per_pass(length: int) -> int:
    """R: rows of every pass at this padded length."""
    return max(1, TOKENS_PER_PASS // length)


def score_fixed(
    model: nn.Module, rows: Sequence[TokenRow], temperatures: Sequence[float], head: Head
) -> list[npt.NDArray[np.float32]]:
    """Return the log-probs of every completion token, without gradient.

    Longest rows go first: an out-of-memory error shows at once instead of at the end.

    Args:
        model: The frozen reference; evaluated in eval mode.
        rows: N pairs (prompt ids, completion ids); prompts are not empty.
        temperatures: N sampling temperatures.
        head: From `check_head(model)`.

    Returns:
        One fp32 array [T] of nats per row, at the row's temperature.

    Raises:
        DataContractError: An empty prompt, or another number of temperatures than rows.
    """
    if len(rows) != len(temperatures):
        raise DataContractError(f"{len(rows)} rows but {len(temperatures)} temperatures")
    for number, (prompt, _) in enumerate(rows):
        if not len(prompt):
            raise DataContractError(f"row {number}: empty prompt")
    results = [np.empty(0, np.float32)] * len(rows)
    with inference(model):
        for length, members in _passes(rows):
            scored = _score_pass(
                model,
                [rows[n] for n in members],
                [temperatures[n] for n in members],
                head,
                (rows_per_pass(length), length),
            )
            for number, values in zip(members, scored, strict=True):
                results[number] = values
    return results


def _passes(rows: Sequence[TokenRow]) -> Iterator[tuple[int, list[int]]]:
    """(padded length, row numbers) of each pass."""
    by_length: dict[int, list[int]] = {}
    for number, (prompt, completion) in enumerate(rows):
        by_length.setdefault(padded_length(len(prompt) + len(completion)), []).append(number)
    for length, members in sorted(by_length.items(), reverse=True):
        size = rows_per_pass(length)
        for start in range(0, len(members), size):
            yield length, members[start : start + size]


def _score_pass(
    model: nn.Module,
    rows: Sequence[TokenRow],
    temperatures: Sequence[float],
    head: Head,
    shape: tuple[int, int],
) -> list[npt.NDArray[np.float32]]:
    device = next(model.parameters()).device
    ids = np.zeros(shape, dtype=np.int64)
    for line, (prompt, completion) in zip(ids, rows, strict=False):
        line[: len(prompt) + len(completion)] = [*prompt, *completion]
    lengths = np.array([len(completion) for _, completion in rows])
    row = np.repeat(np.arange(len(rows)), lengths)
    step = np.concatenate([np.arange(length) for length in lengths])
    position = np.array([len(prompt) - 1 for prompt, _ in rows])[row] + step
    count = -(-row.size // HEAD_POSITIONS) * HEAD_POSITIONS  # of the first position fill up
    fill = np.zeros(count - row.size, dtype=np.int64)
    at = [torch.from_numpy(np.concatenate([index, fill])).to(device) for index in (row, position)]
    tokens = np.concatenate([*(completion for _, completion in rows), fill]).astype(np.int64)
    heat = np.concatenate([np.array(temperatures)[row], fill + 1]).astype(np.float32)
    flat = _logprobs(
        model,
        torch.from_numpy(ids).to(device),
        (at[0], at[1]),
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(heat).to(device),
        head,
    )
    pieces = np.split(flat.cpu().numpy()[: row.size], np.cumsum(lengths)[:-1])
    return [piece.copy() for piece in pieces]


def _logprobs(
    model: nn.Module,
    input_ids: Tensor,
    at: tuple[Tensor, Tensor],
    token_ids: Tensor,
    temperatures: Tensor,
    head: Head,
) -> Tensor:
    """fp32 [M], M a multiple of HEAD_POSITIONS.

    Args:
        model: The reference.
        input_ids: [R, S].
        at: Row and position [M] of what predicts each token.
        token_ids: [M].
        temperatures: [M] fp32.
        head: How the model's logits are made.
    """
    if isinstance(head, FullLogits):
        logits = model(input_ids, use_cache=False).logits
        parts = [
            torch.log_softmax(logits[at[0][part], at[1][part]].float() / heat[:, None], dim=-1)
            .gather(1, token_ids[part, None])
            .squeeze(1)
            for part, heat in _portions(temperatures)
        ]
        return torch.cat(parts)
    hidden = head.backbone(input_ids, use_cache=False).last_hidden_state[at]
    return token_logprobs(
        hidden,
        head.weight,
        token_ids,
        temperature=temperatures,
        chunk_tokens=HEAD_POSITIONS,
        head=head.spec,
    ).logprobs


def _portions(temperatures: Tensor) -> Iterator[tuple[slice, Tensor]]:
    for start in range(0, len(temperatures), HEAD_POSITIONS):
        part = slice(start, start + HEAD_POSITIONS)
        yield part, temperatures[part]
