"""The default sampler: transformers' own forward pass, batched for throughput.

Shapes: B prompts and N rows of a batch, P prompt tokens, T completion tokens.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from grpo_core.errors import SamplerError
from grpo_core.models.modes import inference
from grpo_core.sampling.batches import Share, check_requests, left_pad, plan_batches
from grpo_core.sampling.decode import Draws, Rows, decode
from grpo_core.sampling.draw import uniform_streams
from grpo_core.sampling.stopping import StopCheck
from grpo_core.types import FinishReason, SampledCompletion, SamplingRequest


class HfSampler:
    """Samples from a transformers model in this process.

    It uses the module that it is given, usually the trainer's own, so every optimiser step is seen
    at once and `sync` has nothing to do. Each prompt is prefilled once and its KV cache repeated
    for the request's samples; rows that have ended leave the batch and the cache.

    Args:
        model: A causal language model of transformers, on its device; its train/eval mode is put
            back after each call.
        eos_token_ids: Ids that end a completion; all of them count.
        pad_token_id: Fills the left of shorter prompts; may equal an EOS id.
        context_tokens: Longest prompt plus completion.
        batch_rows: Most rows sampled together; with the requests it fixes which rows share a batch.
        stop: Says which rows end in a stop string; see `stopping.stop_check`.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        eos_token_ids: frozenset[int],
        pad_token_id: int,
        context_tokens: int,
        batch_rows: int,
        stop: StopCheck | None = None,
    ) -> None:
        if batch_rows < 1:
            raise SamplerError(f"batch_rows is {batch_rows}; expected at least 1")
        self._model = model
        self._eos = sorted(eos_token_ids)
        self._pad = pad_token_id
        self._context_tokens = context_tokens
        self._batch_rows = batch_rows
        self._stop = stop

    def sample(self, requests: Sequence[SamplingRequest]) -> list[list[SampledCompletion]]:
        """Draw the completions of each request; see `protocol.Sampler`."""
        check_requests(requests, self._context_tokens)
        done: dict[tuple[int, int], SampledCompletion] = {}
        with inference(self._model):
            for shares in plan_batches(requests, self._batch_rows):
                done.update(self._sample_batch(requests, shares))
        return [
            [done[index, sample] for sample in range(len(request.seeds))]
            for index, request in enumerate(requests)
        ]

    def sync(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing to do: the module is shared. `weights` is not consumed."""

    def sleep(self) -> None:
        """Nothing to do: it holds no memory between calls."""

    def close(self) -> None:
        """Nothing to do: the module is the trainer's."""

    def _sample_batch(
        self, requests: Sequence[SamplingRequest], shares: Sequence[Share]
    ) -> Iterator[tuple[tuple[int, int], SampledCompletion]]:
        """Yield ((request, sample), completion) of one batch."""
        device = next(self._model.parameters()).device
        texts = [requests[share.request].prompt_token_ids for share in shares]
        rows = _stack_rows(requests, shares, device)
        keys = [(s.request, sample) for s in shares for sample in range(s.start, s.stop)]
        draws = decode(
            self._model,
            left_pad(texts, self._pad, device),
            rows,
            self._ends,
            [f"request {request}, sample {sample}" for request, sample in keys],
        )
        return zip(keys, _completions(draws, rows.budgets.tolist()), strict=True)

    def _ends(self, completion_ids: Tensor) -> Tensor:
        """[M, t] -> bool [M]: the last id is an EOS id, or completes a stop string."""
        eos = torch.tensor(self._eos, dtype=torch.int64, device=completion_ids.device)
        ended = (completion_ids[:, -1:] == eos).any(1)
        return ended if self._stop is None else ended | self._stop(completion_ids)


def _stack_rows(
    requests: Sequence[SamplingRequest], shares: Sequence[Share], device: torch.device
) -> Rows:
    """Seeds, temperatures and budgets of all rows of a batch, prompt after prompt."""
    counts = torch.tensor([share.stop - share.start for share in shares])
    asked = [requests[share.request] for share in shares]
    seeds = [
        seed for share in shares for seed in requests[share.request].seeds[share.start : share.stop]
    ]
    temperatures = torch.tensor([request.temperature for request in asked])
    budgets = torch.tensor([request.max_completion_tokens for request in asked])
    return Rows(
        index=torch.arange(len(seeds), device=device),
        prompt=torch.arange(len(shares)).repeat_interleave(counts).to(device),
        temperatures=temperatures.repeat_interleave(counts).unsqueeze(1).to(device),
        budgets=budgets.repeat_interleave(counts).to(device),
        uniforms=uniform_streams(seeds, int(budgets.max())).to(device),
    )


def _completions(draws: Draws, budgets: Sequence[int]) -> Iterator[SampledCompletion]:
    """Cut each row after its first end, or at its budget."""
    never = draws.ended.shape[1] + 1
    ends = torch.where(draws.ended.any(1), draws.ended.int().argmax(1) + 1, never)
    rows = (tensor.tolist() for tensor in (draws.tokens, draws.logprobs, ends))
    for tokens, logprobs, end, budget in zip(*rows, budgets, strict=True):
        length = min(end, budget)
        yield SampledCompletion(
            token_ids=tuple(tokens[:length]),
            sampling_logprobs=tuple(logprobs[:length]),
            finish_reason=FinishReason.STOP if end <= budget else FinishReason.LENGTH,
        )
