"""Verify finds damage; gc removes what no run uses and nothing else."""

from pathlib import Path

import pyarrow as pa
import pytest

from grpo_core.errors import RunBusyError
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.files import write_json
from grpo_core.store.lake import Lake
from grpo_core.store.locks import hold
from grpo_core.store.maintenance import find_garbage, no_run_active, remove_garbage, verify
from grpo_core.store.schemas import AUDIT_RESULTS


def publish(lake: Lake, rows: int) -> Artifact:
    table = pa.Table.from_pylist(
        [{"audit": "a", "severity": "warn", "num_rows": rows, "why": "w"}],
        schema=AUDIT_RESULTS.schema,
    )
    return lake.store.publish(
        Draft("audit", "audit", "a" * 64, {}, tables={"audit_results": table})
    )


def pin(lake: Lake, artifact: Artifact) -> None:
    node = {
        "stage": "audit",
        "label": "audit",
        "kind": "audit",
        "phase": -1,
        "key": artifact.key,
        "content": artifact.content,
        "state": "Computed",
        "seconds": 1.0,
        "tokens": 0,
        "finished_at": "2026-01-01T00:00:00+00:00",
    }
    write_json(lake.root / "runs/r/run.json", {"attempt": 1, "nodes": {"audit": node}})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_verify_names_what_is_damaged(lake: Lake) -> None:
    artifact = publish(lake, 1)
    assert verify(lake) == (1, [])
    artifact.files("audit_results")[0].write_bytes(b"torn")
    count, damaged = verify(lake)
    assert count == 1
    assert "part-00000.parquet" in damaged[0].reason


def test_gc_keeps_what_a_run_pins(lake: Lake) -> None:
    old, kept = publish(lake, 1), publish(lake, 2)
    pin(lake, kept)
    garbage = find_garbage(lake)
    assert [lake.root / item.path for item in garbage] == [old.path]
    remove_garbage(lake, garbage)
    assert not old.path.exists()
    assert kept.path.exists()


def test_gc_refuses_while_a_run_is_at_work(lake: Lake) -> None:
    with (
        hold(lake.lock_path("run-r"), "a run"),
        pytest.raises(RunBusyError, match="'r'"),
        no_run_active(lake),
    ):
        pass
