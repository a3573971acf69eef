"""Training states: what a later attempt needs to go on as if nothing had happened.

```
state-000016/checkpoint/            Hugging Face directory: weights, config, tokenizer
state-000016/state/optimizer.safetensors   moments, and the fp32 masters of coarser weights
state-000016/state/trainer.json     step, KL controller, running reward means
```

Nothing is ever pickled.
"""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from grpo_core.errors import ArtifactError
from grpo_core.objective.kl_control import KlControl
from grpo_core.store.models import code_files, tokenizer_files
from grpo_core.training.masters import has_master, optimized

CHECKPOINT = "checkpoint"
STATE = "state"
_OPTIMIZER, _TRAINER = "optimizer.safetensors", "trainer.json"
_MASTER = "master"


@dataclass(frozen=True, slots=True)
class TrainerState:
    """Everything besides weights and moments.

    Args:
        step: Optimiser steps taken in the run.
        kl: State of the beta controller.
        ema_rewards: Running mean reward by data source.
    """

    step: int
    kl: KlControl
    ema_rewards: dict[str, float] = field(default_factory=dict)


def save_state(
    directory: Path,
    *,
    model: Any,
    optimizer: torch.optim.Optimizer,
    state: TrainerState,
    tokenizer_from: Path,
) -> None:
    """Write a complete training state into an empty directory.

    Args:
        directory: Where to write.
        model: The policy.
        optimizer: Its optimiser.
        state: The rest.
        tokenizer_from: Model directory whose tokenizer files and code are copied byte by byte, so
            that the tokenizer's digest stays the same.
    """
    checkpoint = directory / CHECKPOINT
    model.save_pretrained(checkpoint)
    for file in (*tokenizer_files(tokenizer_from), *code_files(tokenizer_from)):
        copy = checkpoint / file.relative_to(tokenizer_from)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
    rest = directory / STATE
    rest.mkdir()
    save_file(_optimizer_tensors(optimizer, model), rest / _OPTIMIZER)
    text = json.dumps(asdict(state), indent=1, sort_keys=True, allow_nan=False)
    (rest / _TRAINER).write_text(text + "\n", encoding="utf-8")


def load_trainer_state(directory: Path) -> TrainerState:
    """Read `state/trainer.json` of a training state."""
    try:
        values = json.loads((directory / STATE / _TRAINER).read_text(encoding="utf-8"))
        return TrainerState(values["step"], KlControl(**values["kl"]), values["ema_rewards"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{directory} holds no readable training state: {error}") from error


def load_optimizer(optimizer: torch.optim.Optimizer, directory: Path, *, model: Any) -> None:
    """Fill the optimiser's moments and master weights from a training state.

    Args:
        optimizer: Fresh, over `model`.
        directory: The training state.
        model: The policy, loaded from the same state.

    Raises:
        ArtifactError: The tensors do not belong to these parameters.
    """
    tensors = load_file(directory / STATE / _OPTIMIZER)
    parameters = optimized(optimizer)
    expected = 3 * len(parameters) + sum(has_master(optimizer, model))
    if tensors and len(tensors) != expected:
        raise ArtifactError(
            f"{directory}: {len(tensors)} optimiser tensors, expected {expected}",
            "a state of another model, of another model.dtype, or of a release that kept no fp32 "
            "masters of bfloat16 weights; grpo run with --force train starts the phase again",
        )
    for name, tensor in tensors.items():
        number, part = name.split(".")
        parameter = parameters[int(number)]
        if part != "step" and tensor.shape != parameter.shape:
            raise ArtifactError(
                f"{directory}: optimiser tensor {name} has shape {list(tensor.shape)}, "
                f"expected {list(parameter.shape)}"
            )
        if part == _MASTER:
            parameter.data.copy_(tensor)
        else:
            device = torch.device("cpu") if part == "step" else parameter.device
            optimizer.state[parameter][part] = tensor.to(device)


def _optimizer_tensors(optimizer: torch.optim.Optimizer, model: Any) -> dict[str, torch.Tensor]:
    """Number of the parameter and part → tensor; nothing before the first step."""
    parts: dict[str, torch.Tensor] = {}
    masters = has_master(optimizer, model)
    for number, (parameter, is_master) in enumerate(
        zip(optimized(optimizer), masters, strict=True)
    ):
        moments = optimizer.state.get(parameter, {})
        if moments and is_master:
            moments = {**moments, _MASTER: parameter}
        for part, value in sorted(moments.items()):
            parts[f"{number}.{part}"] = value.detach().cpu().contiguous()
    return parts
