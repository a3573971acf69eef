"""Locks that refuse: a look at a lock is no holder."""

import fcntl
from pathlib import Path

import pytest

from grpo_core.errors import RunBusyError
from grpo_core.store import locks
from grpo_core.store.locks import hold_or_refuse


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
