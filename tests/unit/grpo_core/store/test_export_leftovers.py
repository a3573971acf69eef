"""What a killed export leaves beside its archive goes with the next export to the same name."""

import os
import shutil
from pathlib import Path

import pytest
from fault_walk import run_until
from small_run import make_lake

from grpo_core.store import Lake
from grpo_core.store.archives import claimed_beside, pack, scratch_beside
from grpo_core.store.exchange import export_run, import_run


def killed_while_holding(target: Path) -> None:
    """A process is killed in the middle of an archive, with a scratch directory beside it."""
    child = os.fork()
    if child == 0:
        with claimed_beside(target), scratch_beside(target) as scratch:
            (scratch / "row").write_text("x")
            os._exit(9)
    os.waitpid(child, 0)


def test_the_next_export_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    lake, target = make_lake(tmp_path / "lake"), tmp_path / "out/r.tar"
    killed_while_holding(target)
    other = target.with_name(".other.tar.01234567")
    other.write_text("of another archive")
    assert len(list(target.parent.iterdir())) == 4
    export_run(lake, "r", target)
    assert sorted(path.name for path in target.parent.iterdir()) == [other.name, "r.tar"]
    import_run(Lake(tmp_path / "imported"), target)


def test_what_a_living_export_writes_stays(tmp_path: Path) -> None:
    member, target = tmp_path / "member", tmp_path / "out/r.tar"
    member.write_text("x")
    with scratch_beside(target) as scratch, claimed_beside(target) as temporary:
        (scratch / "row").write_text("x")
        pack({"member": member}, target)
        assert (scratch / "row").is_file()
        assert temporary.is_file()
    assert [path.name for path in target.parent.iterdir()] == ["r.tar"]


def test_without_locks_nothing_is_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, target = tmp_path / "member", tmp_path / "out/r.tar"
    member.write_text("x")
    killed_while_holding(target)
    before = set(target.parent.iterdir())

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    pack({"member": member}, target)
    assert set(target.parent.iterdir()) == {*before, target}


def test_an_archive_killed_before_any_file_operation_leaves_nothing_for_good(
    tmp_path: Path,
) -> None:
    member = tmp_path / "member"
    member.write_text("x")
    for operation in range(40):
        target = tmp_path / f"out-{operation}/r.tar"

        def act(target: Path = target) -> None:
            with scratch_beside(target) as scratch:
                shutil.copy(member, scratch / "member")
                pack({"member": scratch / "member"}, target)

        target.parent.mkdir()
        was_killed = run_until(operation, target.parent, act)
        pack({"member": member}, target)
        assert [path.name for path in target.parent.iterdir()] == ["r.tar"]
        if not was_killed:
            assert operation > 5
            return
    raise AssertionError("the archive was never finished")
