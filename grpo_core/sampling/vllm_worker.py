"""What vLLM's workers do for the sampler beyond their own methods; vLLM mixes it into its worker.

It runs inside the engine's processes, so it imports nothing of the trainer.
"""

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from grpo_core.sampling.checksum import HeldWeights, checksum

_POLL_SECONDS = 1.0
_UNPACK_ROWS = 256
_WORD = (1 << 64) - 1


class WorkerExtension:
    """Methods that `collective_rpc` finds on every worker."""

    model_runner: Any
    rank: int
    reload_weights: Any

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
        self.reload_weights(weights_path=directory)
        for module in self.model_runner.get_model().modules():
            is_packed = hasattr(module, "cpu_linear")
            if is_packed and hasattr(module, "num_embeddings") and module.weight.numel():
                module.quant_method.process_weights_after_loading(module)

    @torch.inference_mode()
    def held_weights(self) -> list[HeldWeights]:
        """Checksums of what this rank holds: parameters, and their packed copies."""
        model = self.model_runner.get_model()
        fused = dict(getattr(model, "packed_modules_mapping", None) or {})
        names: dict[int, str] = {}
        held = []
        for module_name, module, own, tensor in _parameters(model):
            name = f"{module_name}.{own}"
            is_tied = id(tensor) in names
            parts = _parts(names.setdefault(id(tensor), name), fused)
            sums = {} if is_tied else _checksums(module, tensor, self.rank, dim=0)
            forms = {name: sums}
            if own == "weight" and hasattr(module, "cpu_linear"):
                forms[f"{name} (packed)"] = _packed_checksums(module, self.rank)
            held += [
                HeldWeights(form, parts, str(tensor.dtype).removeprefix("torch."), shard, value)
                for form, sums in forms.items()
                for shard, value in sums.items()
            ]
        return held


def _parameters(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Tensor]]:
    """(module's name, module, own name, parameter); a tied one under each of its names."""
    for module_name, module in model.named_modules():
        for own, tensor in module.named_parameters(recurse=False):
            yield module_name, module, own, tensor


def _parts(name: str, fused: dict[str, list[str]]) -> list[str]:
    """Names of the tensors that vLLM fuses in one, by the model's own table."""
    words = name.split(".")
    for index, word in enumerate(words):
        if word in fused:
            return [".".join([*words[:index], part, *words[index + 1 :]]) for part in fused[word]]
    return [name]


def _packed_checksums(module: Any, rank: int) -> dict[str, int]:
    """Checksums of the weight that a linear layer's CPU kernel has packed, by shard.

    It cannot be read, so it is multiplied by the unit matrix: each product is one weight plus
    zeros, which no kernel rounds.
    """
    like = module.weight
    if like.numel():
        width = like.shape[1]
    else:  # layers that are never split over ranks have the second name alone
        width = getattr(module, "input_size_per_partition", None) or module.input_size
    sums: dict[str, int] = defaultdict(int)
    for rows in torch.split(torch.eye(width, dtype=like.dtype), _UNPACK_ROWS):
        part = module.cpu_linear(rows, like, None)
        for shard, value in _checksums(module, part, rank, dim=1).items():
            sums[shard] = (sums[shard] + value) & _WORD
    return sums


def _checksums(module: Any, tensor: Tensor, rank: int, *, dim: int) -> dict[str, int]:
    """Checksums by shard; heads of keys and values may have copies on further ranks.

    Args:
        module: That the tensor belongs to.
        tensor: A parameter, or a weight transposed.
        rank: Of this worker.
        dim: Of the layer's outputs.
    """
    if not tensor.numel():
        return {}
    replicas = getattr(module, "num_kv_head_replicas", 1)
    if replicas == 1:
        return {str(rank): checksum(tensor)}
    queries = module.num_heads * module.head_size
    return {
        f"q{rank}": checksum(tensor.narrow(dim, 0, queries)),
        f"kv{rank // replicas}": checksum(tensor.narrow(dim, queries, tensor.shape[dim] - queries)),
    }


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
