"""Whether a policy fits its GPU, reckoned from its files before anything runs.

What is counted is there for certain: weights, gradients, moments and the engine's share. What
activations add depends on lengths and micro-batches, so what passes here may still be too large.
"""

from collections.abc import Collection
from math import prod
from pathlib import Path

from grpo_core.config import RunConfig
from grpo_core.errors import ConfigError
from grpo_core.models.directory import weight_shapes
from grpo_core.types import StageName

WEIGHT_BYTES = {"float32": 4, "bfloat16": 2}
"""A parameter of a policy that samples or scores."""
TRAINER_BYTES = {"float32": 16, "bfloat16": 18}
"""A parameter of a policy that trains: its weight, and a gradient and AdamW's two moments in fp32;
a bf16 weight has an fp32 master beside it."""
_GRADIENT_BYTES = 4
"""Of these; a gradient is dropped before anything is sampled."""
_GIB = 1 << 30


def count_parameters(directory: Path) -> int:
    """Numbers in a model's safetensors; reads headers alone.

    Raises:
        ConfigError: There are none.
        ArtifactError: A file that is not whole safetensors.
    """
    return sum(prod(shape) for shape in weight_shapes(directory).values())


def check_memory(
    config: RunConfig, num_parameters: int, stages: Collection[StageName], device_bytes: int
) -> None:
    """Refuse a policy that cannot fit the GPU, whatever its activations need.

    Args:
        config: The resolved configuration.
        num_parameters: Of the policy.
        stages: That are to run; without training there are weights alone.
        device_bytes: Memory of the trainer's GPU; an engine's own are taken to be alike.

    Raises:
        ConfigError: Says what needs how much of what there is, and what to change.
    """
    execution, dtype = config.execution, config.model.dtype
    has_engine = execution.engine == "vllm"
    share = int(execution.engine_memory_share * device_bytes)
    engine_weights = num_parameters * WEIGHT_BYTES[dtype] // execution.tensor_parallel_size
    if has_engine and engine_weights >= share:
        raise ConfigError(
            f"execution.engine_memory_share: {execution.engine_memory_share} of a GPU of "
            f"{_gib(device_bytes)} is {_gib(share)}, but the engine's weights alone take "
            f"{_gib(engine_weights)}",
            "raise it, split the model with execution.tensor_parallel_size, or take a smaller one",
        )
    is_training = StageName.TRAIN in stages
    bytes_each = (TRAINER_BYTES if is_training else WEIGHT_BYTES)[dtype]
    trainer = num_parameters * bytes_each
    model = f"model.path: {num_parameters / 1e9:.2f} billion parameters in {dtype}"
    if trainer >= device_bytes:
        raise ConfigError(
            f"{model} do not fit the GPU: {'training' if is_training else 'sampling'} takes "
            f"{bytes_each} bytes each, {_gib(trainer)}, of {_gib(device_bytes)}, before any "
            "activation",
            "take a smaller model or a larger GPU",
        )
    kept = trainer - num_parameters * _GRADIENT_BYTES * is_training
    if has_engine and execution.placement == "colocate" and kept + share >= device_bytes:
        lower = "lower execution.engine_memory_share below"
        can_lower = kept + engine_weights < device_bytes
        raise ConfigError(
            f"{model} do not fit the GPU together with the engine: while it samples the trainer "
            f"keeps {_gib(kept)}, and the engine takes {_gib(share)} "
            f"(execution.engine_memory_share), of {_gib(device_bytes)}",
            (f"{lower} {1 - kept / device_bytes:.2f}, or " if can_lower else "")
            + "execution.placement = split, which gives the engine GPUs of its own",
        )


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / _GIB:.1f} GiB"
