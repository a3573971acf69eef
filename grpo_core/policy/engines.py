"""Which sampler a configuration asks for, and the one vLLM engine of this process.

Starting an engine takes seconds to minutes, so the stages of a run hand one engine on: the next
policy is loaded into it as long as settings and architecture are equal.
"""

import atexit
from pathlib import Path
from typing import Any

import torch

from grpo_core.config import RunConfig
from grpo_core.errors import EngineGoneError
from grpo_core.models.head import Head
from grpo_core.models.load import context_tokens, pad_token_id
from grpo_core.models.scoring import score
from grpo_core.planning.externals import model_directory
from grpo_core.sampling.hf import HfSampler
from grpo_core.sampling.protocol import Sampler
from grpo_core.sampling.stopping import stop_check
from grpo_core.store.models import architecture_digest

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

    Raises:
        SamplerError: vLLM is not there, its engine does not start, or its log-probs are not the
            trainer's.
    """
    if config.execution.engine == "vllm":
        return _vllm_sampler(config, model, head, tokenizer, eos, directory, device)
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
) -> Sampler:
    from grpo_core.sampling.proof import TOLERANCES
    from grpo_core.sampling.vllm import TrainerSide, VllmSampler
    from grpo_core.sampling.vllm_start import EngineSettings

    stop_check(tokenizer, config.prompt.stop)  # refuses stop strings that cannot occur
    execution, context = config.execution, context_tokens(model.config)
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
    same_model = engine.architecture == architecture_digest(directory)
    return bool(same_model and engine.settings == settings)
