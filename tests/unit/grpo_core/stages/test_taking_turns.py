"""Who may work at the same time: on one device, beside `grpo lake gc`, without a GPU."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_core.config import load_config
from grpo_core.errors import ConfigError, RunBusyError, RunStoppedError
from grpo_core.stages import RunSession, devices
from grpo_core.stages.context import Made, MakeContext
from grpo_core.store.lake import Lake
from grpo_core.store.maintenance import no_run_active
from grpo_core.store.progress import read_events
from grpo_core.store.schemas import TABLES
from grpo_core.types import Kind


def _empty() -> Made:
    return Made(tables={"prompts": TABLES["prompts"].schema.empty_table()})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused_before_the_first_stage(tmp_path: Path) -> None:
    """Before a missing vLLM too, which is no use without it."""
    config = load_config("tiny", overrides=["execution.device=cuda", "execution.engine=vllm"])
    with (
        pytest.raises(ConfigError, match=r"execution\.device is cuda"),
        RunSession.open(config, root=tmp_path, run="demo"),
    ):
        pass
    assert not (tmp_path / "runs" / "demo" / "progress.jsonl").exists()


def test_stages_that_need_no_device_run_without_the_gpu(
    attempt: Callable[..., dict[str, Any]],
) -> None:
    assert attempt(lambda context: _empty(), "execution.device=cuda")["state"] == "Computed"


def test_two_runs_on_one_gpu_take_turns_whatever_their_lakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "device_identity", lambda device: "gpu-1")
    monkeypatch.setattr(devices, "lock_directory", lambda: tmp_path)
    config, holders = load_config("tiny"), []

    def leave() -> None:
        raise RunStoppedError("left the queue")

    def hold(kind: Kind, who: str) -> Any:
        return devices.device_lock(config, kind, who, on_wait=holders.append, on_poll=leave)

    with hold(Kind.TRAIN, "run 'a': train/1"), hold(Kind.BANDS, "run 'b': bands/0"):
        assert holders == []
        with pytest.raises(RunStoppedError), hold(Kind.SAMPLES, "run 'b': samples"):
            pytest.fail("both hold the device")
    assert holders[0].startswith("run 'a': train/1")
    with hold(Kind.SAMPLES, "run 'b': samples"):
        assert len(holders) == 1


def test_a_cpu_is_shared() -> None:
    assert devices.device_identity("cpu") is None


def test_a_run_waits_for_gc_and_says_so(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    progress = tmp_path / "runs/demo/progress.jsonl"
    cleaning = threading.Event()

    def clean() -> None:
        with no_run_active(Lake(tmp_path)):
            cleaning.set()
            while not progress.is_file():
                time.sleep(0.01)

    thread = threading.Thread(target=clean, daemon=True)
    thread.start()
    cleaning.wait()
    result = attempt(lambda context: _empty())
    assert result["state"] == "Computed"
    notes = [event for event in read_events(progress)[0] if event["event"] == "note"]
    assert "grpo lake gc" in notes[0]["text"]
    thread.join()


def test_gc_is_refused_while_a_run_is_at_work(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    def clean_meanwhile(context: MakeContext) -> Made:
        with pytest.raises(RunBusyError, match="'demo'"), no_run_active(context.lake):
            pass
        return _empty()

    assert attempt(clean_meanwhile)["state"] == "Computed"
    with no_run_active(Lake(tmp_path)):
        pass
