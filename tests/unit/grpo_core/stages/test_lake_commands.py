"""`grpo audit` and `grpo lake restore` on the lake of a finished run, as a person types them."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.commands import lake as lake_command
from grpo_core.config import load_config
from grpo_core.errors import ArtifactError
from grpo_core.paths import resolve_path
from grpo_core.stages import devices
from grpo_core.store.exchange import export_run
from grpo_core.store.files import read_json
from grpo_core.store.lake import Lake
from grpo_core.store.maintenance import verify
from grpo_core.store.ref_usage import open_cache
from grpo_core.types import Kind, StageName

pytestmark = pytest.mark.slow


def grpo(lake: Path, *words: str) -> Result:
    of_run = () if words == ("lake", "verify") else ("--run", "mini")
    command = [*words, *of_run, "--lake", str(lake)]
    return CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.parametrize("table", ["rollouts", "eval_verdicts"])
def test_a_byte_changed_in_place_fails_the_audit_and_is_named(lake_copy: Path, table: str) -> None:
    assert grpo(lake_copy, "audit").exit_code == 0
    part = min(lake_copy.glob(f"artifacts/*/*/*/tables/{table}/part-00000.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    done = grpo(lake_copy, "audit")
    assert done.exit_code == 1, done.output
    assert "assert_no_damaged_artifacts (block)" in done.output
    told = f"tables/{table}/part-00000.parquet does not have the sha256"
    assert told in done.output
    query = ["sql", "from damaged", "--format", "csv", "--lake", str(lake_copy)]
    assert told in CliRunner().invoke(app, query).output


def lose_cache(lake: Path) -> None:
    (cache,) = Lake(lake).ref_caches()
    shutil.rmtree(cache)


def test_restore_refuses_a_reference_that_was_changed(
    tmp_path: Path, run_mini: Callable[..., Any]
) -> None:
    lake, model = tmp_path / "lake", tmp_path / "model"
    shutil.copytree(resolve_path(load_config("tiny").model.path), model)
    stages = tuple(StageName)[: list(StageName).index(StageName.REF_LOGP) + 1]
    run_mini(lake, f"model.reference={model}", stages=stages)
    lose_cache(lake)
    (weights,) = model.glob("*.safetensors")
    before = weights.read_bytes()
    tensors = load_file(weights)
    next(iter(tensors.values()))[0] += 1e-3
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(ArtifactError, match=r"rests on rows of reference .* names reference"):
        grpo(lake, "lake", "restore")
    assert not list(lake.glob("ref_logprobs/*/part-*"))
    weights.write_bytes(before)
    assert "reference rows scored again" in grpo(lake, "lake", "restore").output
    assert verify(Lake(lake)).damaged == []


def test_restore_waits_for_the_device_and_says_for_whom(
    lake_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "device_identity", lambda device: "gpu-1")
    monkeypatch.setattr(devices, "lock_directory", lambda: tmp_path)
    lose_cache(lake_copy)
    config, told, waits = load_config("tiny"), [], threading.Event()
    tell = lake_command._tell_waiting

    def tell_waiting(holder: str) -> None:
        tell(holder)
        waits.set()

    monkeypatch.setattr(lake_command, "_tell_waiting", tell_waiting)
    waiter = threading.Thread(
        target=lambda: told.append(grpo(lake_copy, "lake", "restore").output), daemon=True
    )
    with devices.device_lock(
        config, Kind.TRAIN, "run 'a': train/1", on_wait=pytest.fail, on_poll=lambda: None
    ):
        waiter.start()
        assert waits.wait(120)
        assert told == []
        assert not list(lake_copy.glob("ref_logprobs/*/part-*"))
    waiter.join()
    assert "waiting for run 'a': train/1" in told[0]
    assert " reference rows scored again" in told[0]
    holder = read_json(tmp_path / "gpu-1.lock")["holder"]
    assert holder == "grpo lake restore of run 'mini'"


@pytest.mark.parametrize("damage", ["page", "footer", "deleted", "fingerprint"])
def test_restore_heals_a_cache_whose_files_are_damaged(
    lake_copy: Path, tmp_path: Path, damage: str
) -> None:
    (cache,) = Lake(lake_copy).ref_caches()
    rows = open_cache(cache).num_rows
    part = max(cache.glob("part-*.parquet"), key=lambda path: path.stat().st_size)
    data = bytearray(part.read_bytes())
    data[len(data) // 3] ^= 1
    if damage == "page":
        part.write_bytes(data)
    elif damage == "footer":
        part.write_bytes(data[:-20])
    elif damage == "deleted":
        part.unlink()
    else:
        (cache / "fingerprint.json").write_text("{")
    found = grpo(lake_copy, "lake", "verify")
    assert found.exit_code == 1
    assert "grpo lake restore" in found.output
    scored = grpo(lake_copy, "lake", "restore").output
    assert scored.startswith("0 ") == (damage == "fingerprint")
    assert verify(Lake(lake_copy)).damaged == []
    assert open_cache(cache).num_rows == rows
    assert grpo(lake_copy, "audit").exit_code == 0
    assert export_run(Lake(lake_copy), "mini", tmp_path / "r.tar").num_cache_rows == rows
    assert grpo(lake_copy, "lake", "restore").output.startswith("0 ")


def test_a_run_scores_a_receipt_again_whose_part_was_cut(
    lake_copy: Path, run_mini: Callable[..., Any]
) -> None:
    (cache,) = Lake(lake_copy).ref_caches()
    for part in cache.glob("part-*.parquet"):
        part.write_bytes(part.read_bytes()[:-20])
    again = run_mini(lake_copy)
    assert [node.label for node in again.values() if node.state != "Reused"] == ["ref_logp"]
    assert "reference rows scored again" in grpo(lake_copy, "lake", "restore").output
    assert verify(Lake(lake_copy)).damaged == []
