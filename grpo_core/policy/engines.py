"""Which sampler a configuration asks for, and the one vLLM engine of this process.

Starting an engine takes seconds to minutes, so the stages of a run hand one engine on: the next
policy is loaded into it as long as settings and architecture are equal.
"""

import atexit
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from grpo_core.config import RunConfig
from grpo_core.errors import EngineGoneError
from grpo_core.models.context import budgets
from grpo_core.models.head import Head
from grpo_core.models.load import context_tokens, pad_token_id
from grpo_core.models.scoring import score
from grpo_core.planning.externals import model_directory
from grpo_core.sampling.hf import HfSampler
from grpo_core.sampling.protocol import Sampler
from grpo_core.sampling.stopping import stop_check
from grpo_core.store.models import architecture_digest

_CONTEXT_STEP = 256
"""Contexts are rounded up, so that prompts of the next stage seldom need another engine."""
_SPARE_TOKENS = 32
"""A suffix may add a few tokens more to a prompt that was not tried with it."""
_engines: dict[str, Any] = {}
"""The engine of this process under `vllm`, when there is one."""


def make_sampler(
    config: RunConfig,
    *,
    model: Any,
    head: Head,
    tokenizer: Any,
    eos: frozenset[int],
    directory: Path,
    device: torch.device,
    longest_prompt: int | None = None,
) -> Sampler:
    """The configured sampler of a loaded policy.

    Args:
        config: The resolved configuration.
        model: The trainer's module.
        head: How its logits are made.
        tokenizer: Its tokenizer.
        eos: Every id that ends a completion.
        directory: Where the policy was loaded from.
        device: Where the module lies.
        longest_prompt: Tokens of the longest prompt; None when that is not known.

    Raises:
        SamplerError: vLLM is not there, its engine does not start, or its log-probs are not the
            trainer's.
    """
    if config.execution.engine == "vllm":
        context = _engine_context(config, context_tokens(model.config), longest_prompt)
        return _vllm_sampler(config, model, head, tokenizer, eos, directory, device, context)
    return HfSampler(
        model,
        eos_token_ids=eos,
        pad_token_id=pad_token_id(tokenizer, eos),
        context_tokens=context_tokens(model.config),
        batch_rows=config.sampling.rows_per_batch,
        stop=stop_check(tokenizer, config.prompt.stop),
    )


def close_engines() -> None:
    """End the engine of this process, if there is one."""
    engine = _engines.pop("vllm", None)
    if engine is not None:
        engine.close()


def _vllm_sampler(
    config: RunConfig,
    model: Any,
    head: Head,
    tokenizer: Any,
    eos: frozenset[int],
    directory: Path,
    device: torch.device,
    context: int,
) -> Sampler:
    from grpo_core.sampling.proof import TOLERANCES
    from grpo_core.sampling.vllm import TrainerSide, VllmSampler
    from grpo_core.sampling.vllm_start import EngineSettings

    stop_check(tokenizer, config.prompt.stop)  # refuses stop strings that cannot occur
    execution = config.execution
    settings = EngineSettings(
        dtype=config.model.dtype,
        context_tokens=context,
        max_rows=config.sampling.rows_per_batch,
        is_on_gpu=device.type == "cuda",
        placement=execution.placement,
        tensor_parallel_size=execution.tensor_parallel_size,
        memory_share=execution.engine_memory_share,
        threads=execution.threads,
        trust_remote_code=config.model.trust_remote_code,
        tokenizer=str(model_directory(config.model.path)) if config.prompt.stop else None,
    )
    trainer = TrainerSide(
        score=lambda rows, temperatures: score(
            model, rows, temperatures, rows_per_batch=config.sampling.score_rows, head=head
        ),
        weights=lambda: model.state_dict().items(),
        vocabulary_size=min(len(tokenizer), model.get_input_embeddings().weight.shape[0]),
        tolerance=TOLERANCES[config.model.dtype],
    )
    return VllmSampler(
        _engine(directory, settings),
        trainer,
        eos_token_ids=eos,
        context_tokens=context,
        stop=config.prompt.stop,
    )


def _engine_context(config: RunConfig, limit: int, longest_prompt: int | None) -> int:
    """Tokens that an engine must hold for one completion, of all that the run samples.

    A model's whole context can be 128 times that, and an engine refuses to start when its KV cache
    cannot hold one row of it.
    """
    if longest_prompt is None:
        return limit
    need = longest_prompt + max(budgets(config).values()) + _SPARE_TOKENS
    return min(limit, -(-need // _CONTEXT_STEP) * _CONTEXT_STEP)


def _engine(directory: Path, settings: Any) -> Any:
    """The engine of this process with the weights of `directory`, started when it is needed."""
    from grpo_core.sampling.vllm_engine import VllmEngine

    engine = _engines.get("vllm")
    if engine is not None and not _fits(engine, directory, settings):
        close_engines()
        engine = None
    if engine is None:
        engine = _engines["vllm"] = VllmEngine(directory, settings)
        atexit.register(close_engines)
        return engine
    try:
        engine.load(directory)
    except EngineGoneError:
        engine.restart(directory)
    return engine


def _fits(engine: Any, directory: Path, settings: Any) -> bool:
    """Can the engine serve this policy? A longer context than asked for does no harm."""
    same_model = engine.architecture == architecture_digest(directory)
    context = max(engine.settings.context_tokens, settings.context_tokens)
    return bool(same_model and engine.settings == replace(settings, context_tokens=context))
