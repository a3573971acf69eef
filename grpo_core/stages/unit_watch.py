"""Hears of every finished unit of an artefact in work: where it stands, and whether it hangs.

A stall ends the work in two ways. Python code, also Python that waits for a child process or a
socket, is interrupted by a timer signal and ends with a `StalledError`. Code that never comes back
to the interpreter (a collective operation whose peer is gone) can not be interrupted, so a second
timer writes every thread's stack into the attempt's log and ends the process.
"""

import faulthandler
import signal
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from grpo_core.errors import StalledError
from grpo_core.stages.attempt_log import log_tail
from grpo_core.store import query_thread

HOPELESS_SECONDS = 60.0
"""How long after the first timer a process that can not be interrupted is ended."""
_PACKAGE = str(Path(__file__).parents[1])
_LIBRARIES = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class UnitWatch:
    """Watches the units of one artefact.

    Args:
        label: Label of the node.
        stall_seconds: Longest time without a finished unit; 0 is no limit.
        log: The attempt's log file.
    """

    def __init__(self, label: str, stall_seconds: float, log: Path) -> None:
        self.label = label
        self.position = "before its first unit was finished"
        self._seconds = stall_seconds
        self._log = log
        self._is_armed = False

    def finished(self, done: int, total: int, unit: str) -> None:
        """Take note of finished units; the time starts anew."""
        self.position = f"after {done:,} of {total:,} {unit}"
        if self._is_armed:
            self._start()

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Interrupt the block when it stalls; signals reach the main thread only.

        Raises:
            StalledError: No unit was finished in time.
        """
        if not self._seconds or threading.current_thread() is not threading.main_thread():
            yield
            return
        handler = signal.signal(signal.SIGALRM, self._stalled)
        delay, interval = signal.getitimer(signal.ITIMER_REAL)
        began = time.monotonic()
        with self._log.open("a", encoding="utf-8") as self._stream:
            self._is_armed = True
            self._start()
            try:
                yield
            finally:
                self._is_armed = False
                faulthandler.cancel_dump_traceback_later()
                signal.signal(signal.SIGALRM, handler)
                left = max(delay - (time.monotonic() - began), 0.01) if delay else 0.0
                signal.setitimer(signal.ITIMER_REAL, left, interval)

    def _start(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        faulthandler.dump_traceback_later(
            self._seconds + HOPELESS_SECONDS, exit=True, file=self._stream
        )

    def _stalled(self, number: int, frame: FrameType | None) -> None:
        tail = log_tail(self._log)
        raise StalledError(
            f"no unit was finished for {self._seconds:g} s; it stood in {_place(frame)}\n"
            f"last lines of its log:\n{tail}",
            hint=f"the whole log is {self._log}; if units really take that long, raise "
            "execution.stall_seconds",
        )


def _place(innermost: FrameType | None) -> str:
    """File and line of the innermost code of the product or its user, else of whatever it is.

    Libraries only wait on behalf of such code, as does the thread that waits for a query.
    """
    frame = innermost
    while frame is not None and _is_behind(frame.f_code.co_filename):
        frame = frame.f_back
    frame = frame or innermost
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown code"


def _is_behind(file: str) -> bool:
    """Whether a file's code tells nothing of where the product stands."""
    if file.startswith(_PACKAGE):
        return file == query_thread.__file__
    return file.startswith(("<frozen ", *_LIBRARIES))
