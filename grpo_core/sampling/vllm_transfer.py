"""The trainer's weights on their way to an engine on GPUs, by vLLM's own RL interface.

`colocate` hands CUDA IPC handles to the engine on the same GPU; `split` broadcasts over NCCL from
the trainer (rank 0) to the engine's workers.
"""

import socket
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import torch
from torch import Tensor
from vllm.distributed.weight_transfer import WeightSource, WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.base import ParamMeta
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

from grpo_core.sampling.vllm_start import EngineSettings


class _Client:
    """The four calls that the trainer's side of a transfer makes on the engine."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._llm.init_weight_transfer_engine({"init_info": init_info})

    def start_weight_update(self) -> None:
        self._llm.start_weight_update()

    def update_weights(self, update_info: Any) -> None:
        self._llm.update_weights({"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._llm.finish_weight_update(weight_version)


class _Pairs(WeightSource):  # type: ignore[misc]
    """The present weights; they are the trainer's own tensors, so nothing exists twice."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, Tensor]] = []

    def metadata(self) -> list[ParamMeta]:
        return [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self.pairs]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self.pairs)


class WeightTransfer:
    """Sends weights to one engine, as often as asked.

    Args:
        llm: The engine.
        settings: What it was started with.
    """

    def __init__(self, llm: Any, settings: EngineSettings) -> None:
        self._source = _Pairs()
        info: Any = IPCTrainerInitInfo(rank=0)
        if settings.placement == "split":
            world_size = 1 + settings.tensor_parallel_size
            info = NCCLTrainerInitInfo("127.0.0.1", _free_port(), world_size, rank=0)
        self._engine = WeightTransferTrainerFactory.trainer_init(
            info, client=_Client(llm), source=self._source
        )

    def send(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Send every (name, tensor) pair; returns when the engine has loaded them."""
        self._source.pairs = [(name, tensor.detach()) for name, tensor in weights]
        torch.cuda.synchronize()
        self._engine.send_weights()
        self._source.pairs = []

    def close(self) -> None:
        """Let the communicator go, if there is one; vLLM aborts it, so a dead peer does no harm."""
        self._engine.shutdown()


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
