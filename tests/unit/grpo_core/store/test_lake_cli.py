"""`grpo lake` as a person types it, on a small lake made by hand, on one that is read-only too."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from audited_lake import KEY, make_audited_lake
from fault_walk import failing_open
from small_run import make_lake
from typer.testing import CliRunner, Result

from flows.cli import app
from grpo_core.errors import FileUnreadableError, FileUnwritableError
from grpo_core.stages.faults import machine_fault
from grpo_core.store import Lake
from grpo_core.store.maintenance import verify
from grpo_core.store.ref_merges import read_replaced
from grpo_core.store.ref_usage import open_cache


def grpo_lake(lake: Lake, *words: str) -> Result:
    command = ["lake", *words, "--lake", str(lake.root)]
    return CliRunner().invoke(app, command, catch_exceptions=False)


def all_files(root: Path) -> dict[Path, bytes]:
    apart = ("locks", "lake.duckdb", ".digests")
    return {
        path: path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in apart
    }


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_audited_lake(tmp_path / "lake")


def rows_for_other_clients(lake: Lake) -> int:
    with duckdb.connect(str(lake.database), read_only=True) as connection:
        found = connection.sql(
            "select count(*) from audit_results, (select count(*) from ref_logprobs)"
        )
        return int(found.fetchall()[0][0])


def test_gc_removes_nothing_until_it_is_told_to(lake: Lake) -> None:
    before = all_files(lake.root)
    done = grpo_lake(lake, "gc")
    assert done.exit_code == 0
    assert "2 items" in done.output
    assert "would be removed (--remove does it)" in done.output
    assert all_files(lake.root) == before
    done = grpo_lake(lake, "gc", "--remove")
    assert done.exit_code == 0
    assert "2 items" in done.output
    assert "MB" not in done.output, "all of it is a few KB"
    assert done.output.endswith("KB removed\n")
    assert len(list(lake.generations())) == 1
    assert lake.ref_caches() == []
    current = lake.store.current("audit", KEY)
    assert current is not None
    assert current.table("audit_results").column("num_rows").to_pylist() == [2]
    assert verify(lake).damaged == []
    assert "0 items" in grpo_lake(lake, "gc").output


def test_other_clients_read_what_gc_and_compact_leave(lake: Lake) -> None:
    assert grpo_lake(lake, "refresh").exit_code == 0
    assert rows_for_other_clients(lake) == 2
    assert grpo_lake(lake, "compact").exit_code == 0
    replaced = replaced_parts(lake)
    assert len(replaced) == 4
    for part in replaced:  # as the next merge does, ten minutes later
        part.unlink()
    assert rows_for_other_clients(lake) == 2
    assert grpo_lake(lake, "gc", "--remove").exit_code == 0
    assert rows_for_other_clients(lake) == 1


def replaced_parts(lake: Lake) -> list[Path]:
    (cache,) = lake.ref_caches()
    return [path for name in read_replaced(cache) for path in cache.glob(f"{name}.*")]


@pytest.mark.parametrize("damage", ["empty", "missing"])
def test_verify_names_a_pointer_to_nothing_and_gc_mends_it(lake: Lake, damage: str) -> None:
    pointer = lake.root / f"artifacts/audit/{KEY}/CURRENT"
    pinned = pointer.read_text()
    pointer.write_text("" if damage == "empty" else "0123456789ab\n")
    done = grpo_lake(lake, "verify")
    assert done.exit_code == 1
    assert f"artifacts/audit/{KEY}/CURRENT" in done.output
    assert f"artifacts/audit/{KEY}/CURRENT" in grpo_lake(lake, "gc").output
    assert pointer.read_text() != pinned
    grpo_lake(lake, "gc", "--remove")
    assert pointer.read_text() == pinned
    assert grpo_lake(lake, "verify").exit_code == 0


def test_gc_removes_a_pointer_of_a_key_that_has_nothing(lake: Lake) -> None:
    pointer = lake.root / f"artifacts/audit/{'b' * 64}/CURRENT"
    pointer.parent.mkdir()
    pointer.write_text("0123456789ab\n")
    assert [entry.key for entry in verify(lake).damaged] == ["b" * 64]
    grpo_lake(lake, "gc", "--remove")
    assert not pointer.exists()
    assert verify(lake).damaged == []


def test_an_import_says_what_it_refuses_and_what_it_leaves_out(tmp_path: Path) -> None:
    lake, other = make_lake(tmp_path / "lake"), Lake(tmp_path / "other")
    target = str(tmp_path / "r.tar")
    (lake.root / "runs/r/config.json").write_text('{"reward": {"function": "x.py:f"}}')
    assert grpo_lake(lake, "export", "--run", "r", target).exit_code == 0
    command = [sys.executable, "-m", "flows.cli", "lake", "import", target, "--lake"]
    done = subprocess.run([*command, str(other.root)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "reward.function = x.py:f" in done.stderr
    assert "--allow-code" in done.stderr
    assert grpo_lake(other, "import", target, "--allow-code").exit_code == 0
    assert other.run_names() == ["r"]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Lake]:
    """The lake of a run on a file system that is mounted read-only."""
    lake = make_lake(tmp_path / "disk")
    mount = ["mount", "--bind", str(lake.root), str(lake.root)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting needs root; test_faults_of_access_are_named runs anywhere")
    try:
        again = ["mount", "-o", "remount,bind,ro", str(lake.root)]
        subprocess.run(again, check=True)
        yield lake
    finally:
        subprocess.run(["umount", "-l", str(lake.root)], check=True)


def test_a_read_only_lake_is_listed_and_exported(read_only: Lake, tmp_path: Path) -> None:
    done = grpo_lake(read_only, "gc")
    assert (done.exit_code, "0 items" in done.output) == (0, True), done.output
    target = tmp_path / "out/r.tar"
    assert grpo_lake(read_only, "export", "--run", "r", str(target)).exit_code == 0
    assert [path.name for path in target.parent.iterdir()] == ["r.tar"]
    other = Lake(tmp_path / "other")
    assert grpo_lake(other, "import", str(target)).exit_code == 0
    assert verify(other).damaged == []


@pytest.mark.parametrize(
    "words",
    [
        ("lake", "gc", "--remove"),
        ("lake", "compact"),
        ("lake", "refresh"),
        ("lake", "import", __file__),
    ],
)
def test_writing_to_a_read_only_lake_ends_in_two_lines(
    read_only: Lake, words: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "flows.cli", *words, "--lake", str(read_only.root)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "cannot be written: Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_faults_of_access_are_named(tmp_path: Path) -> None:
    inside = tmp_path / "lake/runs/r/run.json"
    read_only = machine_fault(OSError(30, "Read-only file system", str(inside)))
    assert isinstance(read_only, FileUnwritableError)
    assert f"{inside} cannot be written: Read-only file system" in read_only.message
    assert "lake export" in read_only.hint
    assert isinstance(
        machine_fault(PermissionError(13, "Permission denied", str(tmp_path))), FileUnreadableError
    )
    assert machine_fault(OSError(30, "Read-only file system")) is None
    assert machine_fault(FileNotFoundError(2, "No such file", str(inside))) is None


def access_without(*denied: int) -> Callable[[object, int], bool]:
    return lambda _, mode: mode not in denied


@pytest.mark.parametrize("denied", [(os.R_OK,), (os.R_OK, os.W_OK)])
def test_a_file_that_may_not_be_read_is_not_called_unwritable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: tuple[int, ...]
) -> None:
    monkeypatch.setattr(os, "access", access_without(*denied))
    fault = machine_fault(PermissionError(13, "Permission denied", str(tmp_path)))
    assert isinstance(fault, FileUnreadableError)


def test_a_fault_that_names_a_descriptor_stays_what_it_is() -> None:
    error = PermissionError(13, "Permission denied")
    error.filename = 7
    assert machine_fault(error) is None


def test_gc_removes_a_last_generation_and_its_pointer_to_nothing(lake: Lake) -> None:
    pointer = lake.root / f"artifacts/audit/{KEY}/CURRENT"
    pointer.write_text("0123456789ab\n")
    shutil.rmtree(lake.root / "runs")
    assert grpo_lake(lake, "gc", "--remove").exit_code == 0
    assert not pointer.parent.exists()
    assert verify(lake).damaged == []
    assert lake.database.is_file()


def test_gc_that_fails_half_way_makes_the_database_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def fail(path: object, *args: Any, **options: Any) -> None:
        if ".trash" in str(path):
            raise OSError(5, "Input/output error", str(path))
        remove(str(path), *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", fail)
        with pytest.raises(OSError, match="Input/output error"):
            grpo_lake(lake, "gc", "--remove")
    assert lake.database.is_file()


def test_verify_counts_what_it_may_not_read_apart_and_says_what_helps(lake: Lake) -> None:
    (lake.root / "runs/r/attempts").mkdir()
    (lake.root / "runs/r/attempts/0001.json").write_text("{")
    with failing_open("part-00000.parquet", errno.EACCES):
        done = grpo_lake(lake, "verify")
    assert done.exit_code == 1
    assert "1 damaged, 2 unreadable" in done.output
    assert "unreadable artifacts/audit/" in done.output
    assert "hint: nothing says that it is damaged" in done.output
    assert "hint: grpo lake restore --run r makes it again" in done.output
    assert "run the stage again" not in done.output
    (lake.root / "runs/r/attempts/0001.json").unlink()
    min(lake.generations()).joinpath("manifest.json").write_text("{")
    assert "hint: run the stage again" in grpo_lake(lake, "verify").output


def test_a_damaged_part_is_named_once_and_as_passed_over(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    (directory,) = lake.ref_caches()
    part = min(directory.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-5])
    min(directory.glob("part-*.index.npy")).unlink()
    for _ in range(3):
        assert open_cache(directory).num_rows == 3
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"part is passed over: {part}")
