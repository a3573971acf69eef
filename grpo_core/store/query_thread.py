"""Queries that whatever interrupts the main thread ends: Ctrl-C, a cancel, a stall.

DuckDB looks for signals in some of its loops only; there it takes the exception that the signal's
handler raises, and raises an error of its own. So the main thread does not run a query but waits
for the thread that does: it is interrupted at once, by the very exception of the handler.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work; an exception that comes meanwhile interrupts it and passes as it is.

        Raises:
            BaseException: What the work raises, or what a signal's handler does.
        """
        if self._thread is None:
            return work()
        running = self._thread.submit(work)
        try:
            return running.result()
        except BaseException:
            while not running.done():
                self._connection.interrupt()
                wait([running], timeout=_AGAIN_SECONDS)
            raise
