"""Training states: what a later attempt needs to go on as if nothing had happened.

```
state-000016/checkpoint/            Hugging Face directory: weights, config, tokenizer
state-000016/state/optimizer.safetensors
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
from grpo_core.store.models import TOKENIZER_FILES

CHECKPOINT = "checkpoint"
STATE = "state"
_OPTIMIZER, _TRAINER = "optimizer.safetensors", "trainer.json"


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
        tokenizer_from: Model directory whose tokenizer files are copied byte by byte, so that the
            tokenizer's digest stays the same.
    """
    checkpoint = directory / CHECKPOINT
    model.save_pretrained(checkpoint)
    for name in TOKENIZER_FILES:
        if (tokenizer_from / name).is_file():
            shutil.copyfile(tokenizer_from / name, checkpoint / name)
    rest = directory / STATE
    rest.mkdir()
    save_file(_optimizer_tensors(optimizer), rest / _OPTIMIZER)
    text = json.dumps(asdict(state), indent=1, sort_keys=True, allow_nan=False)
    (rest / _TRAINER).write_text(text + "\n", encoding="utf-8")


def load_trainer_state(directory: Path) -> TrainerState:
    """Read `state/trainer.json` of a training state."""
    try:
        values = json.loads((directory / STATE / _TRAINER).read_text(encoding="utf-8"))
        return TrainerState(values["step"], KlControl(**values["kl"]), values["ema_rewards"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{directory} holds no readable training state: {error}") from error


def load_optimizer(optimizer: torch.optim.Optimizer, directory: Path) -> None:
    """Fill the optimiser's moments from a training state.

    Raises:
        ArtifactError: The moments do not belong to these parameters.
    """
    tensors = load_file(directory / STATE / _OPTIMIZER)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if tensors and len(tensors) != 3 * len(parameters):
        raise ArtifactError(
            f"{directory}: {len(tensors)} optimiser tensors, expected {3 * len(parameters)}"
        )
    for name, tensor in tensors.items():
        number, part = name.split(".")
        parameter = parameters[int(number)]
        if part != "step" and tensor.shape != parameter.shape:
            raise ArtifactError(
                f"{directory}: optimiser tensor {name} has shape {list(tensor.shape)}, "
                f"expected {list(parameter.shape)}"
            )
        device = torch.device("cpu") if part == "step" else parameter.device
        optimizer.state[parameter][part] = tensor.to(device)


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        f"{number}.{part}": value.detach().cpu().contiguous()
        for number, parameter in enumerate(parameters)
        for part, value in sorted(optimizer.state.get(parameter, {}).items())
    }
