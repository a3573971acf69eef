"""What Prefect's runner lacks for runs of days: its end would end the runs that it executes.

- Prefect's loops end after three failed polls, and with the loop of scheduled runs the runner ends,
  after some four minutes without a server; at once when another program has taken the server's port
  and refuses the poll. Here they poll on until the server is back.
- The runner copies the output of its runs into its own, a log file; a line for which the disk has
  no room would end the copying, and that the run. Here such a line is dropped.
"""

import errno
import io
import logging
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TextIO

import httpx
from prefect.utilities.services import critical_service_loop

LOOP = "critical_service_loop"
LOOPING_MODULES = ("prefect.runner._scheduled_run_poller", "prefect._internal.observers")
"""Where the runner looks for runs to start, and for runs to cancel while it hears no events."""
_REFUSALS = frozenset({401, 403})
_NO_ANSWER = (httpx.HTTPError, ValueError, TypeError)
"""No server, or another program at its port; what that says can be no JSON, or tell of no runs."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
logger = logging.getLogger(__name__)

Workload = Callable[[], Coroutine[Any, Any, None]]


def bear_with_server() -> None:
    """Make the loops of runners in this process outlast a server that is away.

    Raises:
        AttributeError: This release of Prefect has its loops elsewhere.
    """
    for name in LOOPING_MODULES:
        module = import_module(name)
        getattr(module, LOOP)
        setattr(module, LOOP, _loop)


def bear_with_full_disk() -> None:
    """Let what this process prints be dropped where the disk has no room for it."""
    sys.stdout, sys.stderr = _dropping(sys.stdout), _dropping(sys.stderr)


def patient(workload: Workload) -> Workload:
    """The workload, for which a server that does not answer is no failure; said once an outage.

    Only that our password is refused is one: that server is there, and will go on refusing.
    """
    is_away = False

    async def work() -> None:
        nonlocal is_away
        try:
            await workload()
        except _NO_ANSWER as error:
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in _REFUSALS:
                raise
            if not is_away:
                logger.warning("the Prefect server does not answer, polling goes on: %r", error)
            is_away = True
        else:
            if is_away:
                logger.warning("the Prefect server answers again")
            is_away = False

    return work


async def _loop(workload: Workload, **options: Any) -> None:
    await critical_service_loop(workload=patient(workload), **options)


def _dropping(stream: TextIO) -> TextIO:
    raw = _DroppingFile(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True
    )


class _DroppingFile(io.FileIO):
    """A file that takes what there is no room for as if it had written it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return memoryview(data).nbytes
