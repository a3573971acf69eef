"""Locks that refuse: a look at a lock is no holder."""

import errno
import fcntl
import os
import signal
from pathlib import Path

import pytest

from grpo_core.errors import RunBusyError
from grpo_core.store import Lake, locks
from grpo_core.store.locks import hold_or_refuse, share
from grpo_core.store.maintenance import no_run_active


def test_who_only_looks_whether_a_lock_is_held_does_not_get_a_run_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "run-demo.lock"
    lock.touch()
    with lock.open("rb") as glance:
        fcntl.flock(glance, fcntl.LOCK_SH)
        monkeypatch.setattr(locks.time, "sleep", lambda seconds: glance.close())
        with hold_or_refuse(lock, "run 'demo'", what="run name 'demo'"):
            assert "run 'demo'" in lock.read_text()


def test_a_holder_is_named_to_the_next(tmp_path: Path) -> None:
    lock = tmp_path / "run-demo.lock"
    with (
        hold_or_refuse(lock, "flow run 1", what="run name 'demo'"),
        pytest.raises(RunBusyError, match="run name 'demo' is in use by flow run 1 "),
        hold_or_refuse(lock, "flow run 2", what="run name 'demo'"),
    ):
        pytest.fail("both hold it")


def refusal(lock: Path) -> str:
    with (
        pytest.raises(RunBusyError) as refused,
        hold_or_refuse(lock, "grpo lake gc", what="the lake"),
    ):
        pytest.fail("both hold it")
    return refused.value.message


def test_of_those_who_share_a_lock_none_is_named_that_has_let_go(tmp_path: Path) -> None:
    lock = tmp_path / "lake.lock"
    with hold_or_refuse(lock, "an earlier gc", what="the lake"):
        pass
    with share(lock, "run 'a'", what="the lake"):
        with share(lock, "run 'b'", what="the lake"):
            assert "run 'a' (pid " in refusal(lock)
            assert "run 'b' (pid " in refusal(lock)
        with hold_or_refuse(tmp_path / "other.lock", "run 'c'", what="run 'c'"):
            told = refusal(lock)
        assert "run 'a' (pid " in told
        for other in ("run 'b'", "run 'c'", "earlier gc"):
            assert other not in told
    with hold_or_refuse(lock, "grpo lake gc", what="the lake"):
        with pytest.raises(RunBusyError, match="grpo lake gc"), share(lock, "d", what="the lake"):
            pytest.fail("both hold it")
        assert list((tmp_path / "lake.holders").iterdir()) == []


def test_a_dead_sharer_is_not_named_and_leaves_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "lake.lock"
    child = os.fork()
    if child == 0:
        with share(lock, "run 'dead'", what="the lake"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list((tmp_path / "lake.holders").iterdir())) == 1
    with share(lock, "run 'alive'", what="the lake"):
        told = refusal(lock)
    assert "run 'alive'" in told
    assert "dead" not in told
    with hold_or_refuse(lock, "grpo lake gc", what="the lake"):
        assert list((tmp_path / "lake.holders").iterdir()) == []


def test_a_lock_that_cannot_be_written_is_respected_by_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, opened = tmp_path / "lake.lock", os.open

    def read_only(path: object, flags: int, *mode: int) -> int:
        if flags & (os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return opened(path, flags, *mode)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(locks.os, "open", read_only)
        with hold_or_refuse(lock, "gc", what="the lake", is_reading=True):
            assert not lock.exists()
        with pytest.raises(OSError, match="Read-only"), hold_or_refuse(lock, "gc", what="it"):
            pytest.fail("no lock was taken")
    with share(lock, "run 'a'", what="the lake"):
        monkeypatch.setattr(locks.os, "open", read_only)
        with share(lock, "export", what="the lake", is_reading=True):
            pass
        with (
            pytest.raises(RunBusyError, match="run 'a'"),
            hold_or_refuse(lock, "gc", what="the lake", is_reading=True),
        ):
            pytest.fail("both hold it")


def test_who_cleans_a_busy_lake_is_told_to_wait_and_not_to_rename(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.in_use("run 'mini'"), pytest.raises(RunBusyError) as error, no_run_active(lake):
        raise AssertionError("held twice")
    assert error.value.hint == "wait for it or stop it"
