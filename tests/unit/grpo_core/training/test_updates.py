"""One optimiser step is the same however it is split, padded or ordered."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from grpo_core.config import load_config
from grpo_core.errors import ArtifactError, NonFiniteError
from grpo_core.models.head import check_head
from grpo_core.objective.kl_control import KlControl
from grpo_core.objective.presets import resolve_loss
from grpo_core.training.masters import optimized
from grpo_core.training.state import (
    TrainerState,
    load_optimizer,
    load_trainer_state,
    save_state,
)
from grpo_core.training.tensors import TrainRow
from grpo_core.training.updates import Updater, make_optimizer, scheduled_learning_rate

VOCABULARY = 40
METHODS = ("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config).eval()


def rows(count: int = 12, seed: int = 0) -> list[TrainRow]:
    rng = np.random.default_rng(seed)
    made = []
    for n in range(count):
        length = int(rng.integers(1, 12))
        old = (np.log(1 / VOCABULARY) + 0.3 * rng.normal(size=length)).astype(np.float32)
        made.append(
            TrainRow(
                prompt_token_ids=tuple(rng.integers(0, VOCABULARY, int(rng.integers(2, 9)))),
                completion_token_ids=tuple(rng.integers(0, VOCABULARY, length)),
                temperature=1.0,
                is_truncated=n % 5 == 0,
                is_live=n // 4 != 1,
                group=n // 4,
                advantage=float(rng.normal()),
                old_logprobs=old,
                sampling_logprobs=old,
                ref_logprobs=old - 0.1,
                pieces=None,
            )
        )
    return made


def gradient(model: Any, items: Sequence[TrainRow], *overrides: str) -> torch.Tensor:
    """Gradient of one step, before clipping acts."""
    own = copy.deepcopy(model)
    config = load_config("tiny", overrides=["train.max_grad_norm=1e9", *overrides])
    loss = resolve_loss(config.loss, longest_completion_tokens=16)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.0)
    updater = Updater(own, optimizer, config, loss, check_head(own), torch.device("cpu"))
    live = [row for row in items if row.is_live]
    updater.step(
        live,
        step=1,
        beta=config.kl.beta,
        sampled_rollouts=len(items),
        generated_tokens=sum(len(row.completion_token_ids) for row in items),
    )
    return torch.cat([p.grad.flatten() for p in own.parameters() if p.grad is not None])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "change",
    [
        lambda items: (items, ("execution.micro_batch_rows=1",)),
        lambda items: (items, ("execution.micro_batch_rows=3",)),
        lambda items: (items[::-1], ("execution.micro_batch_rows=5",)),
        lambda items: (items, ("execution.logits_chunk_tokens=2",)),
    ],
    ids=["one-by-one", "threes", "reversed", "chunks"],
)
def test_the_gradient_does_not_depend_on_the_split(
    model: Any, method: str, change: Callable[[list[TrainRow]], Any]
) -> None:
    # A dead group, mixed lengths, and truncated rows that are masked altogether.
    items, overrides = change(rows())
    settings = (f"loss.method={method}", "mask.truncated=drop")
    whole = gradient(model, rows(), *settings)
    split = gradient(model, items, *settings, *overrides)
    torch.testing.assert_close(split, whole, rtol=2e-4, atol=2e-6 * float(whole.abs().max()))


def test_warm_up_is_linear_and_once() -> None:
    config = load_config("tiny", overrides=["train.warmup_steps=4", "train.learning_rate=1"])
    rates = [scheduled_learning_rate(config, step) for step in (1, 2, 4, 5, 100)]
    assert rates == [0.25, 0.5, 1.0, 1.0, 1.0]


def test_a_non_finite_gradient_changes_nothing(model: Any) -> None:
    own = copy.deepcopy(model)
    config = load_config("tiny")
    loss = resolve_loss(config.loss, longest_completion_tokens=16)
    updater = Updater(
        own, make_optimizer(own, config), config, loss, check_head(own), torch.device("cpu")
    )
    bad = rows()[0]
    broken = replace(bad, advantage=float("inf"))
    with pytest.raises(NonFiniteError, match="step 3"):
        updater.step([broken], step=3, beta=0.0, sampled_rollouts=1, generated_tokens=1)
    for before, after in zip(model.parameters(), own.parameters(), strict=True):
        assert torch.equal(before, after)


def test_states_come_back_bit_for_bit(model: Any, tmp_path: Path) -> None:
    own = copy.deepcopy(model)
    config = load_config("tiny")
    optimizer = make_optimizer(own, config)
    own(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    optimizer.step()
    state = TrainerState(5, KlControl(0.01, ema=0.2), {"data": 0.3})
    save_state(tmp_path, model=own, optimizer=optimizer, state=state, tokenizer_from=tmp_path)
    assert load_trainer_state(tmp_path) == state
    fresh = make_optimizer(own, config)
    load_optimizer(fresh, tmp_path, model=own)
    for parameter in own.parameters():
        for name, value in optimizer.state[parameter].items():
            assert torch.equal(value, fresh.state[parameter][name]), name


def trained(model: Any, dtype: torch.dtype, steps: int) -> tuple[Any, torch.optim.Optimizer]:
    """The model in `dtype` and its optimiser after some steps at a post-training learning rate."""
    own = copy.deepcopy(model)
    for parameter in own.parameters():  # parameters alone: transformers keeps buffers in fp32
        parameter.data = parameter.data.to(torch.bfloat16).to(dtype)
    config = load_config("tiny", overrides=["train.learning_rate=1e-6", "train.warmup_steps=0"])
    optimizer = make_optimizer(own, config)
    take_steps(own, optimizer, steps)
    return own, optimizer


def take_steps(model: Any, optimizer: torch.optim.Optimizer, steps: int) -> None:
    config = load_config(
        "tiny",
        overrides=[
            "train.learning_rate=1e-6",
            "train.warmup_steps=0",
            "execution.micro_batch_rows=3",
        ],
    )
    loss = resolve_loss(config.loss, longest_completion_tokens=16)
    updater = Updater(model, optimizer, config, loss, check_head(model), torch.device("cpu"))
    live = [row for row in rows() if row.is_live]
    for step in range(1, steps + 1):
        updater.step(live, step=step, beta=0.0, sampled_rollouts=12, generated_tokens=72)


def moved(model: Any, before: Any) -> torch.Tensor:
    pairs = zip(optimized(model[1]), before.parameters(), strict=True)
    return torch.cat([(after - old.bfloat16()).detach().flatten() for after, old in pairs])


def test_bf16_weights_train_as_far_as_fp32_ones(model: Any) -> None:
    fine = moved(trained(model, torch.float32, 4), model)
    coarse = moved(trained(model, torch.bfloat16, 4), model)
    has_moved = fine.abs() > 1e-6
    assert has_moved.float().mean() > 0.9
    assert (coarse[has_moved] != 0).float().mean() > 0.99
    assert torch.nn.functional.cosine_similarity(coarse, fine, dim=0) > 0.9
    assert float(coarse.norm() / fine.norm()) == pytest.approx(1, abs=0.05)


def test_a_bf16_policy_is_its_masters_rounded_and_keeps_no_gradient(model: Any) -> None:
    own, optimizer = trained(model, torch.bfloat16, 3)
    for parameter, master in zip(own.parameters(), optimized(optimizer), strict=True):
        assert parameter.grad is None
        assert master.dtype == torch.float32
        assert torch.equal(parameter, master.bfloat16())
        assert all(v.dtype == torch.float32 for v in optimizer.state[master].values())


def test_fp32_weights_are_their_own_masters(model: Any) -> None:
    own, optimizer = trained(model, torch.float32, 1)
    pairs = zip(own.parameters(), optimized(optimizer), strict=True)
    assert all(parameter is master for parameter, master in pairs)


def test_a_resumed_bf16_run_goes_on_bit_for_bit(model: Any, tmp_path: Path) -> None:
    own, optimizer = trained(model, torch.bfloat16, 3)
    state = TrainerState(3, KlControl(0.0))
    save_state(tmp_path, model=own, optimizer=optimizer, state=state, tokenizer_from=tmp_path)
    loaded = LlamaForCausalLM.from_pretrained(tmp_path / "checkpoint", dtype=torch.bfloat16).eval()
    fresh = make_optimizer(loaded, load_config("tiny", overrides=["train.learning_rate=1e-6"]))
    load_optimizer(fresh, tmp_path, model=loaded)
    for old, new in zip(optimized(optimizer), optimized(fresh), strict=True):
        assert torch.equal(old, new)
    take_steps(own, optimizer, 2)
    take_steps(loaded, fresh, 2)
    for old, new in zip(optimized(optimizer), optimized(fresh), strict=True):
        assert torch.equal(old, new)


def test_a_bf16_state_without_masters_is_refused(model: Any, tmp_path: Path) -> None:
    own, optimizer = trained(model, torch.float32, 1)
    state = TrainerState(1, KlControl(0.0))
    save_state(tmp_path, model=own, optimizer=optimizer, state=state, tokenizer_from=tmp_path)
    coarse = copy.deepcopy(model).to(torch.bfloat16)
    with pytest.raises(ArtifactError, match="optimiser tensors, expected"):
        load_optimizer(make_optimizer(coarse, load_config("tiny")), tmp_path, model=coarse)


def test_out_of_memory_halves_the_micro_batch_and_gives_the_same_gradient(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = gradient(model, rows())
    sizes: list[int] = []
    backward = Updater._backward

    def with_room_for_three(self: Updater, part: Sequence[TrainRow], *rest: Any) -> Any:
        sizes.append(len(part))
        made = backward(self, part, *rest)  # type: ignore[arg-type]
        if len(part) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return made

    monkeypatch.setattr(Updater, "_backward", with_room_for_three)
    assert torch.allclose(gradient(model, rows()), expected, rtol=1e-5, atol=1e-7)
    assert sizes == [8, 4, 2, 2, 2, 2]


def test_a_row_that_does_not_fit_alone_is_out_of_memory(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Updater, "_backward", never)
    with pytest.raises(torch.OutOfMemoryError):
        gradient(model, rows())
