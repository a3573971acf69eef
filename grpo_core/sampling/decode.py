"""The decoding loop of one batch: prefill once per prompt, then one token a row and step.

Shapes: B prompts, N rows (completions), M rows still in the batch, P prompt tokens, T completion
tokens, V vocabulary.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from grpo_core.errors import NonFiniteError, SamplerError
from grpo_core.sampling.draw import draw_tokens

_COMPACT_AT = 0.95
"""Finished rows leave the batch once at most this share of it is open, or when a budget is spent:
beyond its budget a row could leave the model's context."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What belongs to each row of a batch.

    Args:
        index: [M] row of the batch.
        prompt: [M] prompt of the row.
        temperatures: [M, 1] fp32.
        budgets: [M] tokens.
        uniforms: [M, T] fp32.
    """

    index: Tensor
    prompt: Tensor
    temperatures: Tensor
    budgets: Tensor
    uniforms: Tensor

    def select(self, keep: Tensor) -> "Rows":
        """The rows at positions `keep` [K]."""
        return Rows(
            self.index[keep],
            self.prompt[keep],
            self.temperatures[keep],
            self.budgets[keep],
            self.uniforms[keep],
        )


@dataclass(frozen=True, slots=True)
class Draws:
    """What was drawn so far.

    A row holds up to and including its first `ended`; without one, up to its budget.

    Args:
        tokens: [N, T] int64.
        logprobs: [N, T] fp32.
        ended: [N, T] bool, True where a token ends the completion.
    """

    tokens: Tensor
    logprobs: Tensor
    ended: Tensor

    @classmethod
    def empty(cls, like: Tensor) -> "Draws":
        """Room for as many rows and tokens as `like` [N, T] fp32 has."""
        zeros = torch.zeros_like
        return cls(zeros(like, dtype=torch.int64), zeros(like), zeros(like, dtype=torch.bool))

    def take(
        self, step: int, logits: Tensor, rows: Rows, ends: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw and keep one token of each row.

        Args:
            step: Index of the token in its completion.
            logits: [M, V].
            rows: The M rows.
            ends: Completion ids so far [M, t] -> bool [M].

        Returns:
            Tokens [M], ended [M] bool, and bad [M] bool: rows whose log-prob is not finite.
        """
        tokens, logprobs = draw_tokens(logits, rows.temperatures, rows.uniforms[:, step : step + 1])
        self.tokens[rows.index, step] = tokens
        self.logprobs[rows.index, step] = logprobs
        ended = ends(self.tokens[rows.index, : step + 1])
        self.ended[rows.index, step] = ended
        return tokens, ended, ~torch.isfinite(logprobs)


class Forward:
    """The model with its KV cache: left-padded prompts first, then one token a row.

    Args:
        model: A causal language model of transformers.
        mask: [B, P] bool of the prompts, or None when none is padded.

    Raises:
        SamplerError: An architecture without `past_key_values`.
    """

    def __init__(self, model: nn.Module, mask: Tensor | None) -> None:
        from grpo_core.sampling.kv_cache import new_cache

        accepted = inspect.signature(model.forward).parameters
        if "past_key_values" not in accepted:
            raise SamplerError(
                f"{type(model).__name__} takes no past_key_values, which the hf sampler needs",
                "choose another architecture, or the vllm engine",
            )
        self._model = model
        self._cache = new_cache(model.config)
        self._takes_positions = "position_ids" in accepted
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._mask = mask

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits [M, V] after the ids [M, t] that follow what the cache holds."""
        output = self._model(
            ids,
            past_key_values=self._cache,
            use_cache=True,
            **self._last_only,
            **self._place(ids.shape[1]),
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _place(self, num_new: int) -> dict[str, Any]:
        """Mask and positions of the next `num_new` columns; nothing when no row is padded."""
        if self._mask is None:
            return {}
        if self._cache.get_seq_length():
            self._mask = torch.nn.functional.pad(self._mask, (0, num_new), value=True)
        if not self._takes_positions:
            return {"attention_mask": self._mask}
        positions = self._mask.long().cumsum(-1)[:, -num_new:] - 1
        return {"attention_mask": self._mask, "position_ids": positions.clamp_(min=0)}

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows: full, sliding and recurrent cache layers alike."""
        self._cache.reorder_cache(rows)
        if self._mask is not None:
            self._mask = self._mask[rows]


def decode(
    model: nn.Module,
    prompts: tuple[Tensor, Tensor | None],
    rows: Rows,
    ends: Callable[[Tensor], Tensor],
    names: Sequence[str],
) -> Draws:
    """Draw every row of a batch to its end or budget.

    Args:
        model: In eval mode, without gradient.
        prompts: Left-padded ids [B, P] and mask [B, P] or None.
        rows: All N rows.
        ends: Completion ids so far [M, t] -> bool [M]: does the last one end the completion?
        names: What to call each of the N rows in an error.

    Raises:
        NonFiniteError: The model gave NaN or infinite log-probs.
    """
    ids, mask = prompts
    forward = Forward(model, mask)
    logits = forward(ids)[rows.prompt]
    forward.select(rows.prompt)
    draws = Draws.empty(rows.uniforms)
    is_open = torch.ones_like(rows.index, dtype=torch.bool)
    for step in range(rows.uniforms.shape[1]):
        tokens, ended, bad = draws.take(step, logits, rows, ends)
        bad = bad & is_open
        is_open = is_open & ~ended & (rows.budgets > step + 1)
        spent = rows.budgets == step + 1
        counts = torch.stack((is_open.sum(), spent.sum(), bad.sum()))
        num_open, num_spent, num_bad = counts.tolist()
        if num_bad:
            raise _non_finite(names[int(rows.index[bad][0])], step, num_bad, len(bad))
        if not num_open:
            break
        if num_spent or num_open <= _COMPACT_AT * len(is_open):
            keep = fill_holes(is_open, num_open)
            rows, tokens, is_open = rows.select(keep), tokens[keep], is_open[keep]
            forward.select(keep)
        logits = forward(tokens[:, None])
    return draws


def fill_holes(is_open: Tensor, num_open: int) -> Tensor:
    """The open rows [K], with those past K moved into the holes before it: few rows move."""
    keep = torch.arange(num_open, device=is_open.device)
    keep[~is_open[:num_open]] = is_open[num_open:].nonzero().squeeze(1) + num_open
    return keep


def _non_finite(name: str, step: int, num_bad: int, num_rows: int) -> NonFiniteError:
    return NonFiniteError(
        f"{name}, completion token {step}: the policy gave NaN or infinite log-probs, as in "
        f"{num_bad} of the {num_rows} rows of its batch",
        "the weights hold NaN or overflow in this dtype: go back to the last good checkpoint",
    )
