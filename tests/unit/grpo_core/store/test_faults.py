"""Killed before any file operation, out of space, read-only: nothing is lost, nothing is torn."""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fault_walk import run_until

from grpo_core.errors import ArtifactError
from grpo_core.stages.records import NodeResult, RunRecords
from grpo_core.store import Fingerprint, Lake, RefLogprobCache, RefRow
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.files import read_json
from grpo_core.store.maintenance import find_garbage, remove_garbage, verify
from grpo_core.store.schemas import AUDIT_RESULTS

KEY = "a" * 64


def audit_rows(rows: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"audit": "a", "severity": "warn", "num_rows": rows, "why": "w"}],
        schema=AUDIT_RESULTS.schema,
    )


def publish(lake: Lake, rows: int) -> Artifact:
    tables = {"audit_results": audit_rows(rows)}
    return lake.store.publish(Draft("audit", "audit", KEY, {}, tables=tables))


def current_rows(lake: Lake) -> int:
    artifact = lake.store.current("audit", KEY)
    assert artifact is not None
    return int(artifact.table("audit_results").column("num_rows")[0].as_py())


def cache_of(lake: Lake) -> RefLogprobCache:
    return RefLogprobCache(lake.root / "ref_logprobs", Fingerprint("w", "t", "float32", "sdpa"))


def put(lake: Lake, number: int) -> int:
    row = RefRow((number,), range(5), 1.0)
    return cache_of(lake).put_many([row], [-np.arange(1, 6, dtype=np.float32) / (2 * number + 7)])


def check_cache(lake: Lake, count: int) -> None:
    for number in range(count):
        found = cache_of(lake).get((number,), range(5), 1.0)
        assert found is not None
        np.testing.assert_array_equal(found, -np.arange(1, 6, dtype=np.float32) / (2 * number + 7))


def visible_keys(lake: Lake) -> list[str]:
    """Row keys as SQL sees them."""
    return [
        key
        for part in lake.catalog().ref_parts
        for key in pq.read_table(part, columns=["row_key"]).column("row_key").to_pylist()
    ]


def walk(
    tmp_path: Path,
    prepare: Callable[[Lake], object],
    act: Callable[[Lake], object],
    check: Callable[[Lake], object],
) -> None:
    """Kill `act` before its first, second, … file operation, each time in a fresh lake."""
    prepare(Lake(tmp_path / "prepared"))
    for operation in range(400):
        lake = Lake(tmp_path / str(operation))
        shutil.copytree(tmp_path / "prepared", lake.root)
        was_killed = run_until(operation, lake.root, lambda lake=lake: act(lake))
        check(lake)
        shutil.rmtree(lake.root)
        if not was_killed:
            assert operation > 4
            return
    raise AssertionError("the action never finished")


@pytest.mark.slow
def test_publishing_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    def check(lake: Lake) -> None:
        assert current_rows(lake) in (1, 2)
        assert verify(lake).damaged == []
        publish(lake, 2)
        assert current_rows(lake) == 2

    walk(tmp_path, lambda lake: publish(lake, 1), lambda lake: publish(lake, 2), check)


@pytest.mark.slow
def test_an_append_that_merges_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    def check(lake: Lake) -> None:
        assert len(visible_keys(lake)) == len(set(visible_keys(lake))) in (7, 8)
        check_cache(lake, 7)
        put(lake, 7)
        check_cache(lake, 8)
        assert cache_of(lake).num_rows == 8
        assert verify(lake).damaged == []

    walk(tmp_path, lambda lake: [put(lake, n) for n in range(7)], lambda lake: put(lake, 7), check)


@pytest.mark.slow
def test_a_compaction_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    def check(lake: Lake) -> None:
        assert len(visible_keys(lake)) == len(set(visible_keys(lake))) == 3
        check_cache(lake, 3)
        assert cache_of(lake).compact()[1] == 1
        check_cache(lake, 3)
        assert cache_of(lake).num_rows == 3
        assert verify(lake).damaged == []

    walk(
        tmp_path,
        lambda lake: [put(lake, n) for n in range(3)],
        lambda lake: cache_of(lake).compact(),
        check,
    )


@pytest.mark.slow
@pytest.mark.parametrize("fingerprint", [None, "{", "[]"])
def test_the_claim_of_a_cache_is_killed_before_every_file_operation(
    tmp_path: Path, fingerprint: str | None
) -> None:
    def prepare(lake: Lake) -> None:
        lake.root.mkdir()
        if fingerprint is not None:
            put(lake, 0)
            (cache_of(lake).directory / "fingerprint.json").write_text(fingerprint)

    def check(lake: Lake) -> None:
        if fingerprint is not None:
            check_cache(lake, 1)
        put(lake, 0)
        put(lake, 1)
        check_cache(lake, 2)
        assert cache_of(lake).num_rows == 2
        assert verify(lake).damaged == []
        assert len(lake.ref_caches()) == 1

    walk(tmp_path, prepare, cache_of, check)


@pytest.mark.slow
def test_a_unit_file_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    def write(lake: Lake, unit: int) -> None:
        lake.partial("audit", KEY).write("audit_results", unit, audit_rows(unit))

    def check(lake: Lake) -> None:
        partial = lake.partial("audit", KEY)
        for unit in partial.units("audit_results"):
            assert partial.has("audit_results", unit)
            assert partial.read("audit_results", unit) == audit_rows(unit)
        assert 0 in partial.units("audit_results")
        write(lake, 1)
        assert partial.units("audit_results") == [0, 1]
        assert partial.read_all("audit_results").num_rows == 2

    walk(tmp_path, lambda lake: write(lake, 0), lambda lake: write(lake, 1), check)


@pytest.mark.slow
def test_gc_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    def prepare(lake: Lake) -> None:
        publish(lake, 1)
        kept = publish(lake, 2)
        put(lake, 0)
        records = RunRecords(lake.run_directory("r"))
        records.begin({}, {"audit"})
        (records.directory / "config.json").write_text("{}")
        records.add(node("audit", kept.content))

    def check(lake: Lake) -> None:
        assert current_rows(lake) == 2
        assert verify(lake).damaged == []
        remove_garbage(lake, find_garbage(lake))
        assert current_rows(lake) == 2
        assert len(list(lake.generations())) == 1
        assert find_garbage(lake) == []

    walk(tmp_path, prepare, lambda lake: remove_garbage(lake, find_garbage(lake)), check)


def node(label: str, content: str = KEY) -> NodeResult:
    return NodeResult(
        label=label,
        kind="audit",
        stage="audit",
        phase=-1,
        key=KEY,
        content=content,
        path="x",
        state="Computed",
        seconds=1.0,
        tokens=0,
        figures={},
        finished_at="2026-01-01T00:00:00+00:00",
    )


def test_run_records_are_killed_before_every_file_operation(tmp_path: Path) -> None:
    def prepare(lake: Lake) -> None:
        records = RunRecords(lake.run_directory("r"))
        records.begin({}, {"first", "second"})
        records.add(node("first"))

    def check(lake: Lake) -> None:
        directory = lake.run_directory("r")
        assert {"first"} <= set(RunRecords(directory).pins()) <= {"first", "second"}
        assert read_json(directory / "attempts/0001.json")["nodes"][0]["label"] == "first"
        lake.catalog("r")
        assert RunRecords(directory).begin({}, {"first"}) == 2

    walk(
        tmp_path,
        prepare,
        lambda lake: RunRecords(lake.run_directory("r")).add(node("second")),
        check,
    )


def test_a_training_state_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    def fill(directory: Path) -> None:
        (directory / "weights").write_bytes(b"x" * 100)
        (directory / "trainer.json").write_text("{}")

    def act(lake: Lake) -> None:
        lake.partial("train", KEY).write_directory("state-000002", fill)

    def check(lake: Lake) -> None:
        states = lake.partial("train", KEY).directories("state")
        assert set(states) in ({1}, {1, 2})
        for path in states.values():
            assert (path / "weights").read_bytes() == b"x" * 100
            assert (path / "trainer.json").read_text() == "{}"

    walk(
        tmp_path,
        lambda lake: lake.partial("train", KEY).write_directory("state-000001", fill),
        act,
        check,
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own of 192 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs needs root; test_a_file_limit_loses_nothing runs anywhere")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    lake = Lake(small_disk / "lake")
    publish(lake, 1)
    put(lake, 0)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left") as caught:
        filler.write_bytes(b"x" * (1 << 20))
    assert caught.value.errno == errno.ENOSPC
    for action in (lambda: publish(lake, 2), lambda: put(lake, 1)):
        with pytest.raises(OSError, match="No space left"):
            action()
    assert current_rows(lake) == 1
    check_cache(lake, 1)
    filler.unlink()
    assert verify(lake).damaged == []
    publish(lake, 2)
    put(lake, 1)
    assert current_rows(lake) == 2
    check_cache(lake, 2)


def test_a_read_only_lake_can_be_read(small_disk: Path) -> None:
    lake = Lake(small_disk / "lake")
    publish(lake, 1)
    put(lake, 0)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert current_rows(lake) == 1
    check_cache(lake, 1)
    assert verify(lake).damaged == []
    assert len(lake.catalog().entries) == 1
    for action in (lambda: publish(lake, 2), lambda: put(lake, 1)):
        with pytest.raises(OSError, match="Read-only"):
            action()


def test_a_file_limit_loses_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    publish(lake, 1)
    put(lake, 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        for action in (lambda: publish(lake, 2), lambda: put(lake, 1)):
            with pytest.raises(OSError, match="too large"):
                action()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert current_rows(lake) == 1
    check_cache(lake, 1)
    assert verify(lake).damaged == []
    put(lake, 1)
    check_cache(lake, 2)


def test_a_change_under_an_old_time_stamp_is_found(tmp_path: Path) -> None:
    """The clock goes back, or someone restores the time: ctime tells."""
    lake = Lake(tmp_path / "lake")
    part = publish(lake, 1).files("audit_results")[0]
    assert current_rows(lake) == 1
    status = part.stat()
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ArtifactError, match="sha256"):
        lake.store.current("audit", KEY)


def test_what_killed_writers_left_is_garbage(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    publish(lake, 1)
    for operation in range(0, 40, 3):
        run_until(operation, lake.root, lambda: publish(lake, 2))
    publish(lake, 2)
    remove_garbage(lake, find_garbage(lake))
    assert not list((lake.root / ".staging").iterdir())
    assert not [p for p in lake.root.rglob(".*.????????") if p.is_file()]
