"""How an engine is started, as far as that needs no vLLM."""

import os

import pytest
import torch

from grpo_core.errors import ConfigError
from grpo_core.sampling.vllm_start import EngineSettings, cause, environment, log_tail


def settings(gpus: int) -> EngineSettings:
    return EngineSettings(
        "bfloat16", 64, 8, is_on_gpu=True, placement="split", tensor_parallel_size=gpus
    )


@pytest.mark.parametrize(
    ("inherited", "gpus", "want"),
    [
        ("4,5,6,7", 2, "5,6"),
        ("GPU-aa, GPU-bb", 1, "GPU-bb"),
        ("3,1,-1,2", 1, "1"),
        (None, 2, "1,2"),
    ],
)
def test_a_split_engine_takes_the_visible_gpus_behind_the_trainers(
    monkeypatch, tmp_path, inherited, gpus, want
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if inherited is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", inherited)
    with environment(settings(gpus), tmp_path / "logging.json"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == want
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == inherited


@pytest.mark.parametrize(("inherited", "seen"), [("4,5", 2), ("4,-1,5,6", 1), ("", 0), (None, 2)])
def test_a_split_engine_without_gpus_of_its_own_is_refused(monkeypatch, tmp_path, inherited, seen):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if inherited is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", inherited)
    with (
        pytest.raises(ConfigError, match=rf"takes 3 GPUs.*sees {seen} "),
        environment(settings(2), tmp_path / "logging.json"),
    ):
        pass


def test_the_cause_of_a_death_is_the_first_error_after_the_start(tmp_path):
    log = tmp_path / "engine.log"
    dead = RuntimeError("EngineCore encountered an issue")
    assert cause(log, dead) == "RuntimeError: EngineCore encountered an issue"
    log.write_text("WARNING no café\nValueError: Tokenizer not available\n", encoding="utf-8")
    start = log.stat().st_size
    assert cause(log, dead) == "ValueError: Tokenizer not available"
    assert cause(log, dead, after=start) == "RuntimeError: EngineCore encountered an issue"
    with log.open("a") as more:
        more.write("ERROR core failed\nERROR torch.OutOfMemoryError: CUDA out of memory\n")
        more.write("ValueError: what followed from it\n")
    assert cause(log, dead, after=start) == "torch.OutOfMemoryError: CUDA out of memory"
    assert log_tail(log).endswith("CUDA out of memory\nValueError: what followed from it")
