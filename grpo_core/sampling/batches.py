"""Which rows are sampled together: a function of the requests alone.

Shapes: B prompts of a batch, N rows (completions), P longest prompt in tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_core.errors import SamplerError
from grpo_core.sampling.draw import SEED_END
from grpo_core.types import SamplingRequest


@dataclass(frozen=True, slots=True)
class Share:
    """Some of one request's samples, prefilled once and drawn in one batch.

    Args:
        request: Index into the requests.
        start: First sample.
        stop: One past the last sample.
    """

    request: int
    start: int
    stop: int


def check_requests(requests: Sequence[SamplingRequest], context_tokens: int) -> None:
    """Refuse what no batch could serve, before anything is drawn.

    Raises:
        SamplerError: An empty prompt, no budget, a temperature or seed out of range, or a prompt
            whose length plus budget exceeds `context_tokens`; the message names the request.
    """
    for index, request in enumerate(requests):
        prompt, budget = len(request.prompt_token_ids), request.max_completion_tokens
        if prompt < 1 or budget < 1:
            raise SamplerError(
                f"request {index}: a prompt of {prompt} tokens with a budget of {budget} tokens; "
                "both must be at least 1"
            )
        if not 0 < request.temperature < float("inf"):
            raise SamplerError(f"request {index}: temperature {request.temperature} is not > 0")
        if not all(0 <= seed < SEED_END for seed in request.seeds):
            raise SamplerError(f"request {index}: a seed is outside 0 .. 2^128 - 1")
        if prompt + budget > context_tokens:
            raise SamplerError(
                f"request {index}: prompt of {prompt} tokens + budget of {budget} tokens = "
                f"{prompt + budget} exceeds the context of {context_tokens} tokens",
                "lower max_completion_tokens, drop prompts that long, or take a longer context",
            )


def plan_batches(requests: Sequence[SamplingRequest], batch_rows: int) -> list[list[Share]]:
    """Cut the requests into batches of at most `batch_rows` rows with prompts of similar length.

    Requests are taken by prompt length (ties in their order). One that does not fit into what is
    left of a batch opens the next, so that it is prefilled once; only a request of more than
    `batch_rows` samples is split.
    """
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt_token_ids))
    batches: list[list[Share]] = []
    free = 0
    for index in order:
        num_samples = len(requests[index].seeds)
        for start in range(0, num_samples, batch_rows):
            share = Share(index, start, min(start + batch_rows, num_samples))
            rows = share.stop - share.start
            if rows > free:
                batches.append([])
                free = batch_rows
            batches[-1].append(share)
            free -= rows
    return batches


def left_pad(
    prompts: Sequence[Sequence[int]], pad_token_id: int, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Stack prompts of different lengths so that all end at the same column.

    Args:
        prompts: B prompts, each of at least one token.
        pad_token_id: Fills the left; never attended to.
        device: Where the tensors live.

    Returns:
        Token ids [B, P] and the attention mask [B, P] bool, or None when nothing is padded: models
        then skip the mask altogether.
    """
    longest = max(map(len, prompts))
    padding = [longest - len(prompt) for prompt in prompts]
    ids = torch.tensor(
        [[pad_token_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts],
        device=device,
    )
    if not any(padding):
        return ids, None
    columns = torch.arange(longest, device=device)
    return ids, columns >= torch.tensor(padding, device=device)[:, None]
