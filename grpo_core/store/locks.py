"""One process at a time: kernel file locks that a dead holder cannot keep."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from grpo_core.errors import RunBusyError

_POLL_SECONDS = 0.2
_GLANCE_SECONDS = 0.05
"""Whoever looks whether a lock is held takes it for far less than this."""


@contextmanager
def hold(
    path: Path,
    holder: str,
    *,
    on_wait: Callable[[str], None] | None = None,
    on_poll: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Hold the lock, waiting for whoever has it.

    Args:
        path: Lock file; stays behind, empty of meaning, when released.
        holder: Who we are, shown to waiters.
        on_wait: Called with the present holder's text before waiting, and when another holder
            takes its place.
        on_poll: Called several times a second while waiting; ends the wait by raising.
    """
    with _locked(path, holder, on_wait=on_wait, on_poll=on_poll, wait=True):
        yield


@contextmanager
def hold_or_refuse(path: Path, holder: str, *, what: str) -> Iterator[None]:
    """Hold the lock, or raise RunBusyError that says who has it."""
    with _locked(path, holder, on_wait=None, wait=False, what=what):
        yield


@contextmanager
def share(
    path: Path, holder: str, *, what: str, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock together with others who share it.

    Args:
        path: Lock file.
        holder: Who we are, shown to whoever wants the lock alone.
        what: What the lock is of.
        on_wait: As in `hold`; None refuses instead of waiting for whoever has the lock alone.

    Raises:
        RunBusyError: Somebody has the lock alone, and `on_wait` is None.
    """
    wait = on_wait is not None
    with _locked(path, holder, on_wait=on_wait, wait=wait, what=what, mode=fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(
    path: Path,
    holder: str,
    *,
    on_wait: Callable[[str], None] | None,
    wait: bool,
    on_poll: Callable[[], None] | None = None,
    what: str = "",
    mode: int = fcntl.LOCK_EX,
) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        told = ""
        while not _try_lock(descriptor, mode):
            present = _read_holder(path)
            if not wait:
                time.sleep(_GLANCE_SECONDS)
                if _try_lock(descriptor, mode):
                    break
                raise RunBusyError(
                    f"{what} is in use by {present}",
                    hint="wait for it, stop it, or use another name",
                )
            if on_wait is not None and told != present:
                on_wait(present)
                told = present
            if on_poll is not None:
                on_poll()
            time.sleep(_POLL_SECONDS)
        _write_holder(descriptor, holder)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(descriptor: int, holder: str) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"holder": holder, "pid": os.getpid(), "since": since})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _read_holder(path: Path) -> str:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return "a process that has just started"
    return f"{record['holder']} (pid {record['pid']}, since {record['since']})"
