"""One process at a time on a GPU: a lock of the machine, because two lakes may share the device.

Free memory is no proof that a device is free: the other process may only just be loading. The lock
is the kernel's, so a killed holder cannot keep it. On a CPU there is nothing to hold: two runs are
slower there, but neither fails.
"""

import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from grpo_core.config import RunConfig
from grpo_core.config.checks import check_placement
from grpo_core.policy.memory import check_memory, count_parameters
from grpo_core.store.locks import hold
from grpo_core.types import Kind, StageName

_ON_DEVICE = frozenset({Kind.SAMPLES, Kind.REF_LOGP, Kind.TRAIN, Kind.EVAL_SAMPLES})


_STAGES_ON_DEVICE = frozenset(
    {StageName.PREFILTER, StageName.REF_LOGP, StageName.TRAIN, StageName.EVALUATE}
)


def check_device(config: RunConfig, stages: Collection[StageName]) -> None:
    """Refuse a device that is not there, before any of `stages` works towards it.

    Raises:
        ConfigError: A stage is to run on a GPU, and torch sees none; or the GPU that `auto` finds
            does not go with the engine's placement.
    """
    execution = config.execution
    is_open = execution.device == "auto" and execution.tensor_parallel_size > 1
    if (execution.device == "cuda" or is_open) and _STAGES_ON_DEVICE.intersection(stages):
        from grpo_core.policy.runtime import pick_device  # torch takes seconds to import

        if pick_device(config).type == "cuda":
            check_placement(config)


def check_device_memory(config: RunConfig, stages: Collection[StageName], directory: Path) -> None:
    """Refuse a policy that cannot fit the GPU, before prefilter has sampled for it.

    Raises:
        ConfigError: Says what needs how much of what there is.
    """
    if config.execution.device == "cuda" and _STAGES_ON_DEVICE.intersection(stages):
        import torch

        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        check_memory(config, count_parameters(directory), stages, device.total_memory)


@contextmanager
def device_lock(
    config: RunConfig,
    kind: Kind,
    holder: str,
    *,
    on_wait: Callable[[str], None],
    on_poll: Callable[[], None],
) -> Iterator[None]:
    """Hold the device that artefacts of `kind` are made on; waits like a key's lock.

    Args:
        config: Says which device.
        kind: What is to be made.
        holder: Who we are, shown to waiters.
        on_wait: Called with the present holder's text.
        on_poll: Called while waiting; ends the wait by raising.
    """
    device = device_identity(config.execution.device) if kind in _ON_DEVICE else None
    if device is None:
        yield
        return
    with hold(lock_directory() / f"{device}.lock", holder, on_wait=on_wait, on_poll=on_poll):
        yield


def device_identity(device: str) -> str | None:
    """A name for the GPU that `device` means, the same in every process; None on a CPU."""
    if device == "cpu":
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    return f"gpu-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"


def lock_directory() -> Path:
    """Where the locks of the machine's devices lie, for this user."""
    return Path(tempfile.gettempdir()) / f"grpo-devices-{os.getuid()}"
