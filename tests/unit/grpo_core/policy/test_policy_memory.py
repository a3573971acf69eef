"""What fits a GPU, by the figures that docs/gpu.md gives."""

from types import SimpleNamespace

import pytest
import torch

from grpo_core.config import load_config
from grpo_core.errors import ConfigError
from grpo_core.models.load import load_policy
from grpo_core.paths import PROJECT_ROOT
from grpo_core.policy.memory import TRAINER_BYTES, check_memory, count_parameters
from grpo_core.stages import RunSession
from grpo_core.training.masters import optimized
from grpo_core.training.updates import make_optimizer
from grpo_core.types import StageName

GIB = 1 << 30
QWEN_7B, QWEN_1_5B = 7_615_616_512, 1_543_714_304
FULL, TINY = tuple(StageName), PROJECT_ROOT / "data" / "models" / "tiny"


def refusal(preset, num_parameters, gibibytes, *overrides, stages=FULL) -> ConfigError | None:
    config = load_config(preset, overrides=overrides)
    try:
        check_memory(config, num_parameters, stages, gibibytes * GIB)
    except ConfigError as error:
        return error
    return None


def test_the_1_5b_preset_fits_its_gpu_of_80_gb():
    assert refusal("qwen2.5-1.5b-1gpu", QWEN_1_5B, 79) is None


def test_a_7b_policy_trains_on_one_gpu_of_180_gb_and_samples_on_another():
    assert refusal("baseline-7b", QWEN_7B, 178) is None
    small = refusal("baseline-7b", QWEN_7B, 79)
    assert str(small).startswith(
        "model.path: 7.62 billion parameters in bfloat16 do not fit the GPU: training takes 18 "
        "bytes each, 127.7 GiB, of 79.0 GiB, before any activation"
    )
    assert small.hint == "take a smaller model or a larger GPU"


def test_an_engine_on_the_same_gpu_counts_and_the_settings_that_help_are_named():
    beside = "execution.placement=colocate"
    error = refusal("baseline-7b", QWEN_7B, 178, beside, "execution.engine_memory_share=0.45")
    assert str(error).startswith(
        "model.path: 7.62 billion parameters in bfloat16 do not fit the GPU together with the "
        "engine: while it samples the trainer keeps 99.3 GiB, and the engine takes 80.1 GiB "
        "(execution.engine_memory_share), of 178.0 GiB"
    )
    assert error.hint.startswith("lower execution.engine_memory_share below 0.44, or execution.pl")
    lower = refusal("baseline-7b", QWEN_7B, 178, beside, "execution.engine_memory_share=0.43")
    assert lower is None


def test_a_share_that_does_not_hold_the_engines_weights_is_refused():
    share = "execution.engine_memory_share=0.1"
    error = refusal("baseline-7b", QWEN_7B, 139, share)
    assert "is 13.9 GiB, but the engine's weights alone take 14.2 GiB" in str(error)
    assert "execution.tensor_parallel_size" in error.hint
    assert refusal("baseline-7b", QWEN_7B, 139, share, "execution.tensor_parallel_size=2") is None


def test_without_training_weights_alone_count():
    sampling = StageName.INGEST, StageName.PREFILTER
    assert refusal("baseline-7b", QWEN_7B, 79, stages=sampling) is None
    assert "sampling takes 2 bytes each" in str(
        refusal("baseline-7b", QWEN_7B, 14, "execution.engine=hf", stages=sampling)
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_step_holds_as_many_bytes_a_parameter_as_stated(dtype):
    model = load_policy(TINY, dtype=dtype, attention="sdpa", device="cpu")
    optimizer = make_optimizer(model, load_config("tiny"))
    model(torch.arange(3, 20)[None]).logits.float().square().mean().backward()
    optimizer.step()
    held = {id(p): p for p in [*model.parameters(), *optimized(optimizer)]}
    tensors = [
        *held.values(),
        *(p.grad for p in held.values() if p.grad is not None),
        *(
            optimizer.state[p][name]
            for p in held.values()
            if p in optimizer.state
            for name in ("exp_avg", "exp_avg_sq")
        ),
    ]
    assert sum(t.nbytes for t in tensors) == TRAINER_BYTES[dtype] * count_parameters(TINY)


def test_a_model_that_does_not_fit_is_refused_before_the_first_stage(tmp_path, monkeypatch):
    gpu = SimpleNamespace(total_memory=1 << 20)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    config = load_config("tiny", overrides=["execution.device=cuda"])
    with (
        pytest.raises(ConfigError, match=r"do not fit the GPU: training takes 16 bytes each"),
        RunSession.open(config, root=tmp_path, run="demo"),
    ):
        pass
    assert not (tmp_path / "runs" / "demo" / "progress.jsonl").exists()
