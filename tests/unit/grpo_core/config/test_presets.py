"""The numbers that each shipped preset promises, and what it says when its hardware is missing."""

import importlib.util

import pytest
import torch

from grpo_core.config import load_config
from grpo_core.config.checks import check_engine, config_warnings
from grpo_core.errors import ConfigError
from grpo_core.planning.externals import model_directory
from grpo_core.policy.runtime import pick_device
from grpo_core.stages.devices import check_device
from grpo_core.types import StageName

GPU_PRESETS = ("vanilla-grpo", "starter", "low-budget", "qwen2.5-1.5b-1gpu", "baseline-7b")
NO_MODEL = ("vanilla-grpo", "starter", "low-budget")


def budgets(name: str) -> list[int]:
    return [phase.max_completion_tokens for phase in load_config(name).train.phases]


def test_starter() -> None:
    config = load_config("starter")
    assert (config.train.prompts_per_rollout, config.train.group_size) == (128, 8)
    assert config.sampling.temperature == 1.0
    assert budgets("starter") == [1024]


def test_baseline_7b() -> None:
    config = load_config("baseline-7b")
    train, steps = config.train, sum(phase.max_steps for phase in config.train.phases)
    assert (train.group_size, train.prompts_per_rollout) == (16, 512)
    assert config.loss.method == "grpo"
    assert (config.loss.clip_low, config.loss.clip_high) == (0.2, 0.2)
    assert load_config("baseline-7b", overrides=["loss.clip_high=0.28"]).loss.clip_high == 0.28
    assert (config.kl.beta, config.kl.place) == (0.01, "loss")
    assert train.learning_rate == 1e-6
    assert 0.01 <= train.warmup_steps / steps <= 0.03
    assert (train.adam_beta1, train.adam_beta2, train.weight_decay) == (0.9, 0.95, 0.0)
    assert train.max_grad_norm == 1.0
    assert budgets("baseline-7b") == [1024, 2048, 4096]


def test_low_budget() -> None:
    config = load_config("low-budget")
    assert 5_000 <= config.prompts.train_limit <= 10_000
    assert config.train.group_size == 8
    assert budgets("low-budget") == [1024]


def test_vanilla_grpo_changes_nothing_of_the_published_loss() -> None:
    config = load_config("vanilla-grpo")
    assert config.loss.method == "grpo"
    assert config.kl.beta == 0.04
    assert not config.filter.zero_variance
    assert config.reward.overlong_weight == 0
    bands = config.bands.model_dump()
    assert {value for name, value in bands.items() if name.startswith("weight_")} == {1.0}
    assert any("one update" in warning for warning in config_warnings(config))


@pytest.mark.parametrize("preset", GPU_PRESETS)
def test_a_gpu_preset_samples_with_vllm_in_bf16(preset: str) -> None:
    config = load_config(preset)
    assert (config.execution.engine, config.model.dtype) == ("vllm", "bfloat16")


@pytest.mark.parametrize("preset", GPU_PRESETS)
def test_scoring_on_a_gpu_takes_few_rows_at_a_time(preset: str) -> None:
    """Its activations exist beside the trainer's 18 bytes a parameter."""
    assert load_config(preset).sampling.score_rows <= 16


@pytest.mark.parametrize("placed", ["execution.device=cuda", "execution.device=auto"])
def test_a_colocated_engine_over_several_gpus_is_refused(placed: str, monkeypatch) -> None:
    """Its other GPUs would be handed no weights."""
    changes = ["execution.engine=vllm", "execution.tensor_parallel_size=2", placed]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ConfigError, match=r"tensor_parallel_size: 2 GPUs") as caught:
        check_device(load_config("tiny", overrides=changes), [StageName.PREFILTER])
    assert "placement = split" in caught.value.hint
    check_device(
        load_config("tiny", overrides=[*changes, "execution.placement=split"]),
        [StageName.PREFILTER],
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if "auto" in placed:  # over processes of a CPU it works
        check_device(load_config("tiny", overrides=changes), [StageName.PREFILTER])


@pytest.mark.parametrize("preset", NO_MODEL)
def test_a_preset_without_a_model_asks_for_one(preset: str) -> None:
    with pytest.raises(ConfigError, match=r"model path/to/model: no such directory"):
        model_directory(load_config(preset).model.path)


@pytest.mark.parametrize("preset", GPU_PRESETS)
def test_a_missing_gpu_is_said_at_once(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"execution.device is cuda, but torch .* sees no GPU"):
        pick_device(load_config(preset))


def test_a_missing_vllm_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "grpo_core.config.checks.find_spec", lambda name: None if name == "vllm" else find(name)
    )
    check_engine(load_config("tiny"))
    with pytest.raises(ConfigError, match="vllm is not installed") as caught:
        check_engine(load_config("starter"))
    assert "make vllm" in caught.value.hint


def test_the_smollm2_preset_names_the_command_that_makes_its_model(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("grpo_core.planning.externals.resolve_path", lambda path: tmp_path / path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="smollm2-135m: no such directory") as caught:
        model_directory(load_config("smollm2-135m").model.path)
    assert "make smollm2" in caught.value.hint
