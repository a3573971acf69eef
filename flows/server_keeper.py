"""Starts the server again when it dies, so that runs in progress never notice for long.

The runner does it, as it lives as long as anything is executed, and `grpo down` ends it before the
server. A run whose server is away goes on; what it could not tell of its end is told here.
"""

import fcntl
import logging
import threading
import time
from collections.abc import Callable

from flows.processes import read_record
from flows.project import Project
from flows.reconcile import reconcile
from flows.server import client_of, find_server, start_server
from grpo_core.errors import GrpoError

CHECK_SECONDS = 2.0
ANSWER_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 300.0
logger = logging.getLogger(__name__)


def keep_server(project: Project) -> threading.Thread:
    """Watch the project's server from a thread of this process, as long as the process lives."""
    keeper = ServerKeeper(project)
    thread = threading.Thread(target=keeper.watch, name="keep-server", daemon=True)
    thread.start()
    return thread


def has_died(project: Project) -> bool:
    """Whether there was a server that nobody stopped and that lives no more."""
    record = read_record(project.record("server"))
    return record is not None and not record.is_alive()


class _Pause:
    """How long something that fails is left alone: longer and longer."""

    def __init__(self) -> None:
        self._seconds, self._ends_at = CHECK_SECONDS, 0.0

    def is_over(self) -> bool:
        """Whether it is worth trying again."""
        return time.monotonic() >= self._ends_at

    def begin(self) -> None:
        """It has just failed."""
        self._seconds = min(2 * self._seconds, LONGEST_PAUSE_SECONDS)
        self._ends_at = time.monotonic() + self._seconds

    def reset(self) -> None:
        """It has succeeded, or there is nothing to do."""
        self._seconds, self._ends_at = CHECK_SECONDS, 0.0


class ServerKeeper:
    """Knows what is left to do for the server.

    Args:
        project: Whose server.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._is_telling_due = False
        self._starting, self._telling = _Pause(), _Pause()

    def watch(self) -> None:
        """Check again and again, whatever happens: nobody else does."""
        while True:
            time.sleep(CHECK_SECONDS)
            try:
                self.check()
            except Exception:
                logger.exception("the Prefect server could not be looked after, tried again")

    def check(self) -> None:
        """Start a server that died; the next time, tell it what it missed."""
        if has_died(self._project):
            if self._starting.is_over():
                self._in_turn(self._start, self._starting)
            return
        self._starting.reset()
        if self._is_telling_due and self._telling.is_over():
            self._in_turn(self._tell, self._telling)

    def _in_turn(self, work: Callable[[], bool], pause: _Pause) -> None:
        """Do what is due unless somebody else is at it; what fails is left alone for a while."""
        try:
            with (self._project.state / "up.lock").open("w", encoding="ascii") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                is_done = work()
        except Exception:
            pause.begin()
            raise
        if is_done:
            pause.reset()
        else:
            pause.begin()

    def _start(self) -> bool:
        if not has_died(self._project):  # somebody was quicker
            return True
        logger.warning("the Prefect server died: starting it again")
        try:
            start_server(self._project, at_old_port=True)  # the runner knows no other address
        except (GrpoError, OSError) as error:
            logger.error("the Prefect server could not be started again: %s", error)
            return False
        self._is_telling_due = True
        self._telling.reset()
        return True

    def _tell(self) -> bool:
        server = find_server(self._project)
        if server is not None:  # else somebody stopped it; the next `grpo up` tells
            try:
                client = client_of(self._project, server).patient(ANSWER_SECONDS)
                for line in reconcile(self._project, client, has_runner=True):
                    logger.warning("%s", line)
            except (GrpoError, OSError) as error:
                logger.error("what ended meanwhile could not be told, tried again: %s", error)
                return False
        self._is_telling_due = False
        return True
