"""How a vLLM engine is started: its settings, arguments, environment and log."""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from grpo_core.errors import ConfigError
from grpo_core.models.load import UNLIMITED_TOKENS

_EXTENSION = "grpo_core.sampling.vllm_worker.WorkerExtension"
_CPU_BLOCK_TOKENS = 32
"""Only whole blocks are shared over a group; vLLM's own 128 on CPUs would share no short prompt."""
_CPU_BATCH_TOKENS = 4096
_SMALLEST_CACHE_BYTES = 64 << 20
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_TAIL_LINES = 40
_LOG_FORMAT = "%(levelname)s %(message)s"
_CAUSE = re.compile(r"\b([A-Za-z_.]*(?:Error|Exception)): (.+)$")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How an engine is started.

    Args:
        dtype: `float32` or `bfloat16`.
        context_tokens: Longest prompt plus completion.
        max_rows: Most completions drawn at the same time.
        is_on_gpu: On GPUs, else on the CPU.
        placement: `colocate` shares the trainer's GPU; `split` takes the visible GPUs behind it.
        tensor_parallel_size: GPUs that share the model.
        memory_share: Of each device's memory; on a CPU of the KV cache alone.
        threads: CPU threads; 0 leaves vLLM's own choice.
        trust_remote_code: Run code that comes with the model.
        tokenizer: Directory of the tokenizer; None when no stop string needs it.
    """

    dtype: str
    context_tokens: int
    max_rows: int
    is_on_gpu: bool = False
    placement: Literal["colocate", "split"] = "colocate"
    tensor_parallel_size: int = 1
    memory_share: float = 0.4
    threads: int = 0
    trust_remote_code: bool = False
    tokenizer: str | None = None

    @property
    def is_colocated(self) -> bool:
        """It shares the trainer's GPU, so it sleeps and is handed CUDA IPC handles."""
        return self.is_on_gpu and self.placement == "colocate"


def arguments(directory: Path, settings: EngineSettings) -> dict[str, Any]:
    """Arguments of `vllm.LLM`."""
    is_unlimited = settings.context_tokens == UNLIMITED_TOKENS
    common: dict[str, Any] = {
        "model": str(directory),
        "tokenizer": settings.tokenizer or str(directory),
        "skip_tokenizer_init": settings.tokenizer is None,
        "trust_remote_code": settings.trust_remote_code,
        "dtype": settings.dtype,
        "max_model_len": None if is_unlimited else settings.context_tokens,
        "max_num_seqs": settings.max_rows,
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",  # no penalty or EOS id but those of the request
        "tensor_parallel_size": settings.tensor_parallel_size,
        "worker_extension_cls": _EXTENSION,
        "use_tqdm_on_load": False,
        "seed": 0,
    }
    if settings.is_on_gpu:
        return common | {
            "gpu_memory_utilization": settings.memory_share,
            "enable_sleep_mode": settings.is_colocated,
            "weight_transfer_config": {"backend": "ipc" if settings.is_colocated else "nccl"},
        }
    # A chunked prefill sets a seeded row's generator back, which CPU generators cannot do.
    return common | {
        "enforce_eager": True,
        "block_size": _CPU_BLOCK_TOKENS,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": None
        if is_unlimited
        else max(settings.context_tokens, settings.max_rows, _CPU_BATCH_TOKENS),
        "kv_cache_memory_bytes": _cpu_cache_bytes(directory, settings),
    }


def _cpu_cache_bytes(directory: Path, settings: EngineSettings) -> int:
    """What `max_rows` rows of full context need, at most the share of the memory."""
    import psutil
    from transformers import AutoConfig

    share = int(psutil.virtual_memory().total * settings.memory_share)
    config = AutoConfig.from_pretrained(
        directory, trust_remote_code=settings.trust_remote_code, local_files_only=True
    ).get_text_config(decoder=True)
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "head_dim", None) or (heads and config.hidden_size // heads)
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    if not (heads and width and kv_heads):
        return share
    per_number = 4 if settings.dtype == "float32" else 2
    bytes_a_token: int = 2 * config.num_hidden_layers * kv_heads * width * per_number
    blocks = -(-settings.context_tokens // _CPU_BLOCK_TOKENS) + 1
    need = bytes_a_token * _CPU_BLOCK_TOKENS * blocks * settings.max_rows
    return min(share, max(need, _SMALLEST_CACHE_BYTES))


@contextmanager
def environment(settings: EngineSettings, logging_file: Path) -> Iterator[None]:
    """The environment that the engine's processes inherit; ours is put back afterwards."""
    wanted = {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_LOGGING_CONFIG_PATH": str(logging_file),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "PYTHONWARNINGS": "ignore",  # of vLLM's own modules; they would stand in the live view
    }
    if settings.threads:
        wanted["OMP_NUM_THREADS"] = str(settings.threads)
    if settings.is_on_gpu and settings.dtype == "float32":
        wanted["TRITON_F32_DEFAULT"] = "ieee"  # else attention multiplies in TF32
    if settings.is_on_gpu and settings.placement == "split":
        wanted[_VISIBLE] = ",".join(engine_gpus(settings.tensor_parallel_size))
    with _changed(wanted):
        yield


@contextmanager
def lasting_environment(settings: EngineSettings) -> Iterator[None]:
    """What must hold as long as the engine lives: both sides read it at each message.

    CUDA IPC handles are pickled. An engine that may pickle writes its answers in another form,
    which a trainer that may not refuses, so this must never differ between them.
    """
    with _changed({"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"} if settings.is_colocated else {}):
        yield


@contextmanager
def _changed(wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def engine_gpus(count: int) -> list[str]:
    """The `count` GPUs behind the trainer's, as `CUDA_VISIBLE_DEVICES` names them.

    Raises:
        ConfigError: This process sees too few.
    """
    import torch

    named = os.environ.get(_VISIBLE)
    if named is None:
        visible = [str(gpu) for gpu in range(torch.cuda.device_count())]
    else:  # CUDA ignores what follows an entry that names no GPU
        entries = (entry.strip() for entry in named.split(","))
        visible = list(takewhile(lambda entry: entry not in ("", "-1"), entries))
    if len(visible) <= count:
        raise ConfigError(
            f"execution.placement is split, which takes {1 + count} GPUs: one for the trainer and "
            f"execution.tensor_parallel_size = {count} for the engine; this process sees "
            f"{len(visible)} ({_VISIBLE} is {'not set' if named is None else repr(named)})",
            "execution.placement = colocate shares one GPU",
        )
    return visible[1 : 1 + count]


def log_settings(scratch: Path, log: Path) -> Path:
    """A logging configuration by which the engine's processes write to `log`."""
    path = scratch / "logging.json"
    handler = {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain"}
    settings = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": _LOG_FORMAT}},
        "handlers": {"file": handler},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path.write_text(json.dumps(settings))
    return path


def keep_handlers() -> None:
    """Keep vLLM from configuring the logging of this process; its own processes still do.

    It would close every handler there is, and hold logging's lock meanwhile. Threads whose handlers
    wait for that lock can then hang a run for ever. To be called inside `environment`.
    """
    import vllm.logger
    from vllm.config.logging import LoggingConfig

    vllm.logger._last_configured_logging_config = LoggingConfig()  # "it is in force already"


@contextmanager
def client_log(log: Path) -> Iterator[None]:
    """Errors that vLLM logs in this process go to the engine's log, all else nowhere.

    Its warnings come with tracebacks, in which nobody finds the cause of a failure.
    """
    logger, handler = logging.getLogger("vllm"), logging.FileHandler(log, delay=True)
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    handler.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.addHandler(logging.NullHandler())  # without any, warnings would go to stderr
        logger.removeHandler(handler)
        handler.close()


def log_tail(log: Path) -> str:
    """The last lines of the engine's log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]) or "(empty)"


def cause(log: Path, error: Exception, *, after: int = 0) -> str:
    """The first error that the engine's own log names; what was raised here comes later.

    Args:
        log: The engine's log.
        error: What was raised here; told when the log names none.
        after: Bytes of the log to leave out. A start that succeeds logs errors too.
    """
    text = log.read_bytes()[after:].decode(errors="replace") if log.is_file() else ""
    found = next((match for line in text.splitlines() if (match := _CAUSE.search(line))), None)
    if found is None:
        return f"{type(error).__name__}: {error}"
    return f"{found[1]}: {found[2]}"
