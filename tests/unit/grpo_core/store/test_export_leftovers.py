"""What a killed export leaves beside its archive goes with the next export to the same name."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from fault_walk import run_until
from small_run import make_lake

from grpo_core.errors import ConfigError
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
    other = target.with_name(".other.tar.export-01234567")
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


def test_a_file_that_another_export_takes_for_abandoned_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is locked by the other between the moments when it was made and locked, removed later."""
    member, target = tmp_path / "member", tmp_path / "out/r.tar"
    member.write_text("x")
    taken: dict[str, int] = {}

    def open_and_lose(path: Path, flags: int, *mode: int) -> int:
        descriptor = open_for_real(path, flags, *mode)
        if flags & os.O_EXCL and not taken:
            taken[str(path)] = open_for_real(path, os.O_RDWR)
            fcntl.flock(taken[str(path)], fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    open_for_real = os.open
    monkeypatch.setattr("grpo_core.store.archives.os.open", open_and_lose)
    with claimed_beside(target) as temporary:
        ((path, other),) = taken.items()
        assert temporary != Path(path)
        Path(path).unlink()
        os.close(other)
        pack({"member": member}, target)
        assert temporary.is_file()
    assert [path.name for path in target.parent.iterdir()] == ["r.tar"]


def test_a_hidden_file_named_by_date_is_no_leftover(tmp_path: Path) -> None:
    member, target = tmp_path / "member", tmp_path / "out/r.tar"
    member.write_text("x")
    target.parent.mkdir()
    target.with_name(".r.tar.20261130").write_text("the user's")
    pack({"member": member}, target)
    assert target.with_name(".r.tar.20261130").read_text() == "the user's"


def test_an_archive_may_have_as_long_a_name_as_a_file(tmp_path: Path) -> None:
    lake, target = make_lake(tmp_path / "lake"), tmp_path / "out" / ("é" * 120 + "a" * 15)
    killed_while_holding(target)
    export_run(lake, "r", target)
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("place", ["a" * 256, "a" * 256 + "/r.tar", "pipe"])
def test_an_archive_where_no_file_can_be_is_refused(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=place):
        export_run(make_lake(tmp_path / "lake"), "r", tmp_path / place)


@pytest.mark.skipif(os.geteuid() != 0, reason="others have no permission there")
def test_an_archive_where_the_kernel_makes_no_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(tmp_path / "lake")
    monkeypatch.setattr("grpo_core.store.exchange.check_run", lambda _: pytest.fail("too late"))
    with pytest.raises(ConfigError, match=r"/proc/x\.tar: No such file"):
        export_run(lake, "r", Path("/proc/x.tar"))
