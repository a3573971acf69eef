"""A policy that is ready to sample and score: model, tokenizer, renderer, sampler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grpo_core.config import RunConfig
from grpo_core.errors import ConfigError
from grpo_core.models.head import Head, check_head
from grpo_core.models.load import (
    check_vocabulary,
    context_tokens,
    eos_token_ids,
    load_policy,
    load_tokenizer,
)
from grpo_core.models.render import PromptRenderer
from grpo_core.policy.engines import make_sampler
from grpo_core.sampling.synced import SyncedSampler
from grpo_core.seeds import derive_seed
from grpo_core.store.columns import logprob_columns
from grpo_core.types import SampledCompletion, SamplingRequest

LongestPrompt = Callable[[PromptRenderer, int], int]
"""(renderer, the model's context) → tokens of the longest prompt that will be sampled; raises when
it does not fit."""


@dataclass(frozen=True)
class PolicyRuntime:
    """A loaded policy.

    Args:
        model: The torch module; the trainer updates it in place.
        tokenizer: Its tokenizer.
        renderer: Problem text to token ids and back.
        sampler: Samples with the weights of `model`; told of each update by `mark_stale`.
        head: How the model's logits are made, proven at load.
        device: Where the model lies.
    """

    model: Any
    tokenizer: Any
    renderer: PromptRenderer
    sampler: SyncedSampler
    head: Head
    device: torch.device


def load_runtime(
    config: RunConfig, directory: Path, longest_prompt: LongestPrompt | None = None
) -> PolicyRuntime:
    """Load a policy from a Hugging Face directory for sampling, scoring and training.

    Args:
        config: The resolved configuration.
        directory: Of the policy.
        longest_prompt: Asked before an engine is started, which then need not be able to sample
            more than that and the largest budget; without it, as much as the model can.
    """
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # it would write into the live view
    device = pick_device(config)
    set_threads(config)
    model = load_policy(
        directory,
        dtype=config.model.dtype,
        attention=config.model.attention,
        trust_remote_code=config.model.trust_remote_code,
        device=device,
    )
    tokenizer = load_tokenizer(directory, trust_remote_code=config.model.trust_remote_code)
    check_vocabulary(model, tokenizer)
    eos, head = eos_token_ids(directory, tokenizer), check_head(model)
    renderer, context = PromptRenderer(tokenizer, config.prompt), context_tokens(model.config)
    sampler = make_sampler(
        config,
        model=model,
        head=head,
        tokenizer=tokenizer,
        eos=eos,
        directory=directory,
        device=device,
        longest_prompt=longest_prompt(renderer, context) if longest_prompt else None,
    )
    return PolicyRuntime(
        model=model,
        tokenizer=tokenizer,
        renderer=renderer,
        sampler=SyncedSampler(sampler, lambda: model.state_dict().items()),
        head=head,
        device=device,
    )


def pick_device(config: RunConfig) -> torch.device:
    """The configured device; `auto` takes a GPU when there is one.

    Raises:
        ConfigError: The device is a GPU that torch does not see.
    """
    wanted = config.execution.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"execution.device is cuda, but torch {torch.__version__} sees no GPU",
            "look at nvidia-smi; TORCH=cuda make env installs the build for GPUs; "
            "execution.device = cpu takes the CPU",
        )
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def set_threads(config: RunConfig) -> None:
    """Apply `execution.threads`; 0 leaves torch's own choice."""
    if config.execution.threads:
        torch.set_num_threads(config.execution.threads)


def sample_request(
    prompt_token_ids: tuple[int, ...],
    seed_parts: Sequence[str | int],
    *,
    num_samples: int,
    temperature: float,
    max_completion_tokens: int,
) -> SamplingRequest:
    """A request whose seeds derive from `seed_parts` and the sample index."""
    return SamplingRequest(
        prompt_token_ids=prompt_token_ids,
        seeds=tuple(derive_seed(*seed_parts, index) for index in range(num_samples)),
        temperature=temperature,
        max_completion_tokens=max_completion_tokens,
    )


def completion_columns(
    requests: Sequence[SamplingRequest],
    sampled: Sequence[Sequence[SampledCompletion]],
    *,
    renderer: PromptRenderer,
    policy: str,
) -> dict[str, list[Any]]:
    """Columns of one row a sample, in request order; see `store.table_spec.completion_fields`."""
    rows = [
        (request, completion)
        for request, completions in zip(requests, sampled, strict=True)
        for completion in completions
    ]
    logprobs = [np.asarray(c.sampling_logprobs, dtype=np.float32) for _, c in rows]
    return {
        "policy": [policy] * len(rows),
        "prompt_token_ids": [list(r.prompt_token_ids) for r, _ in rows],
        "num_prompt_tokens": [len(r.prompt_token_ids) for r, _ in rows],
        "completion_token_ids": [list(c.token_ids) for _, c in rows],
        "num_completion_tokens": [len(c.token_ids) for _, c in rows],
        "text": [renderer.decode(c.token_ids) for _, c in rows],
        "temperature": [r.temperature for r, _ in rows],
        "max_completion_tokens": [r.max_completion_tokens for r, _ in rows],
        "finish_reason": [c.finish_reason.value for _, c in rows],
        **logprob_columns("sampling", logprobs),
    }
