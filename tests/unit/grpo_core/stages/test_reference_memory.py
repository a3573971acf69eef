"""The reference takes memory while it scores a rollout batch, and none while the policy learns."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from grpo_core.policy import reference
from grpo_core.types import StageName

pytestmark = pytest.mark.slow


def test_no_update_happens_while_the_reference_is_in_memory(
    tmp_path: Path, run_mini: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, models, alive = reference.load_policy, [], []

    def loaded(*arguments: Any, **options: Any) -> torch.nn.Module:
        model = load(*arguments, **options)
        models.append(weakref.ref(model))
        return model

    def count(*_: object) -> None:
        gc.collect()
        alive.append(sum(model() is not None for model in models))

    monkeypatch.setattr(reference, "load_policy", loaded)
    hook = register_optimizer_step_pre_hook(count)
    try:
        run_mini(
            tmp_path,
            "execution.reference.memory_share=0",
            'train.phases=[{"max_completion_tokens":24,"max_steps":4}]',
            stages=tuple(StageName)[: list(StageName).index(StageName.TRAIN) + 1],
        )
    finally:
        hook.remove()
    assert len(models) >= 2
    assert len(alive) >= 2
    assert set(alive) == {0}
