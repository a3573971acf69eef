"""Queries that whatever interrupts the main thread ends: Ctrl-C, a cancel, a stall.

DuckDB looks for signals in some of its loops only; there it takes the exception that the signal's
handler raises, and raises an error of its own. So the main thread does not run a query but waits
for the thread that does: it is interrupted at once, by the very exception of the handler. The block
is not left before the query has ended, also when another signal comes while it ends. What no Python
can close is the gap of some bytecodes between two passes of that loop.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Self, TypeVar

_AGAIN_SECONDS = 0.1
"""An interrupt that comes before the query has begun is lost, so another follows."""

T = TypeVar("T")


class QueryThread:
    """Where one connection's work is done while the main thread waits; a context manager.

    On any other thread, which no signal reaches, the work is done in place.

    Args:
        connection: What is interrupted.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        is_main = threading.current_thread() is threading.main_thread()
        self._thread = ThreadPoolExecutor(1, "duckdb") if is_main else None
        self._outcome: Future[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the work; of several exceptions meanwhile the first goes on, see `_weightier`."""
        winner = error
        while self._outcome is not None:
            try:
                self._end(self._outcome)
                self._outcome = None
            except BaseException as later:  # noqa: BLE001 - raised below
                winner = _weightier(winner, later)
        if self._thread is not None:
            self._thread.shutdown()
        if winner is not None and winner is not error:
            raise winner

    def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work; an exception meanwhile passes, and the end of the block ends it.

        Raises:
            BaseException: What the work raises, or what a signal's handler does.
        """
        if self._thread is None:
            return work()
        # A signal may come in the middle of `submit`, so the future is made and kept before.
        outcome: Future[T] = Future()
        self._outcome = outcome
        self._thread.submit(_do, outcome, work)
        return outcome.result()

    def _end(self, outcome: "Future[Any]") -> None:
        """Take back work that has not begun, interrupt work that has."""
        outcome.cancel()
        while not outcome.done():
            self._connection.interrupt()
            wait([outcome], timeout=_AGAIN_SECONDS)


def _do(outcome: "Future[T]", work: Callable[[], T]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised where the outcome is taken
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


def _weightier(first: BaseException | None, later: BaseException) -> BaseException:
    """The first, unless only the later one is a stop: whoever retries errors would go on."""
    if first is None or (isinstance(first, Exception) and not isinstance(later, Exception)):
        return later
    return first
