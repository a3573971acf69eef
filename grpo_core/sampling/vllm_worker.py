"""What vLLM's workers do for the sampler beyond their own methods; vLLM mixes it into its worker.

It runs inside the engine's processes, so it imports nothing of the trainer.
"""

from typing import Any


class WorkerExtension:
    """Methods that `collective_rpc` finds on every worker."""

    model_runner: Any

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
