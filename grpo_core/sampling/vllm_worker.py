"""What vLLM's workers do for the sampler beyond their own methods; vLLM mixes it into its worker.

It runs inside the engine's processes, so it imports nothing of the trainer.
"""

import os
import signal
import threading
import time
from typing import Any

_POLL_SECONDS = 1.0


class WorkerExtension:
    """Methods that `collective_rpc` finds on every worker."""

    model_runner: Any

    def end_with(self, trainer: int) -> None:
        """End the engine when the process `trainer` ends, however it does.

        A trainer that is killed cannot end its engine, which would go on holding the GPU's memory.
        """
        threading.Thread(target=_outlive, args=(trainer,), name="end-with", daemon=True).start()

    def load_directory(self, directory: str) -> None:
        """Load the weights of a saved model into the running engine.

        On CPUs vLLM packs each linear layer once more for its kernels. Its reload packs those that
        it loads, but not a head that is tied to the embedding, which then keeps the old weights
        without any error; so such heads are packed again here.
        """
        self.model_runner.reload_weights(weights_path=directory)
        for module in self.model_runner.get_model().modules():
            is_packed = hasattr(module, "cpu_linear")
            if is_packed and hasattr(module, "num_embeddings") and module.weight.numel():
                module.quant_method.process_weights_after_loading(module)


def _outlive(trainer: int) -> None:
    """Wait for the end of `trainer`; then end this worker, and the engine that started it."""
    engine = os.getppid()  # with one GPU the worker is the engine, and this is the trainer
    while _is_alive(trainer):
        time.sleep(_POLL_SECONDS)
    if engine != trainer and os.getppid() == engine:
        os.kill(engine, signal.SIGKILL)
    os._exit(1)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
