"""One process at a time: kernel file locks that a dead holder cannot keep.

Who holds a lock alone stands in the lock file. Of several who share one, each holds a file of its
own beside it, so that none is named that has let go.
"""

import errno
import fcntl
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

from grpo_core.errors import RunBusyError

_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
_BUSY = "wait for it or stop it"
NAME_IN_USE = "wait for it, stop it, or use another name"
"""Hint on a run name that is taken."""
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
def hold_or_refuse(
    path: Path, holder: str, *, what: str, is_reading: bool = False, hint: str = _BUSY
) -> Iterator[None]:
    """Hold the lock, or raise RunBusyError that says who has it.

    Args:
        path: Lock file.
        holder: Who we are.
        what: What the lock is of.
        is_reading: Nothing is changed meanwhile, so that a lock file that cannot be written is
            locked as it is, and one that is not there and cannot be made is done without.
        hint: What to do when it is held.
    """
    with _locked(
        path, holder, on_wait=None, wait=False, what=what, is_reading=is_reading, hint=hint
    ):
        yield


@contextmanager
def share(
    path: Path,
    holder: str,
    *,
    what: str,
    on_wait: Callable[[str], None] | None = None,
    is_reading: bool = False,
) -> Iterator[None]:
    """Hold the lock together with others who share it.

    Args:
        path: Lock file.
        holder: Who we are, shown to whoever wants the lock alone.
        what: What the lock is of.
        on_wait: As in `hold`; None refuses instead of waiting for whoever has the lock alone.
        is_reading: As in `hold_or_refuse`.

    Raises:
        RunBusyError: Somebody has the lock alone, and `on_wait` is None.
    """
    locked = _locked(
        path,
        holder,
        on_wait=on_wait,
        wait=on_wait is not None,
        what=what,
        mode=fcntl.LOCK_SH,
        is_reading=is_reading,
    )
    with locked, _among_holders(path, holder, is_reading=is_reading):
        yield


@contextmanager
def _among_holders(path: Path, holder: str, *, is_reading: bool) -> Iterator[None]:
    """Be named to whoever wants a shared lock alone, for as long as we are alive and share it."""
    place = _holders(path) / uuid.uuid4().hex
    descriptor = _open(place, is_reading=is_reading)
    try:
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write_holder(descriptor, holder)
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                place.unlink(missing_ok=True)
            os.close(descriptor)


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
    is_reading: bool = False,
    hint: str = _BUSY,
) -> Iterator[None]:
    descriptor = _open(path, is_reading=is_reading)
    if descriptor is None:
        yield
        return
    try:
        told = ""
        while not _try_lock(descriptor, mode):
            present = _read_holder(path)
            if not wait:
                time.sleep(_GLANCE_SECONDS)
                if _try_lock(descriptor, mode):
                    break
                raise RunBusyError(f"{what} is in use by {present}", hint=hint)
            if on_wait is not None and told != present:
                on_wait(present)
                told = present
            if on_poll is not None:
                on_poll()
            time.sleep(_POLL_SECONDS)
        with suppress(OSError) if is_reading else nullcontext():
            _write_holder(descriptor, holder if mode == fcntl.LOCK_EX else "")
            if mode == fcntl.LOCK_EX:  # nobody shares it now: what is there, dead ones left
                for place in _holders(path).glob("*"):
                    place.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, *, is_reading: bool) -> int | None:
    """Open a lock file; None when it is not there and only readers may do without."""
    if is_reading and not path.parent.parent.is_dir():
        return None  # no lake yet, and whoever only reads makes none
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if not is_reading or error.errno not in _UNWRITABLE:
            raise
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _holders(path: Path) -> Path:
    """Where those who share a lock say so."""
    return path.with_suffix(".holders")


def _try_lock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(descriptor: int, holder: str) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"holder": holder, "pid": os.getpid(), "since": since}) if holder else ""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _read_holder(path: Path) -> str:
    """Who has the lock: those who share it, else the one who has it alone."""
    sharing = [_said_in(place) for place in _holders(path).glob("*") if _is_held(place)]
    return ", ".join(sorted(sharing)) or _said_in(path)


def _said_in(path: Path) -> str:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "a process that has just started"
    return f"{record['holder']} (pid {record['pid']}, since {record['since']})"


def _is_held(place: Path) -> bool:
    """Whether the process that made this file lives and holds it."""
    try:
        descriptor = os.open(place, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
