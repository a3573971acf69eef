"""Starts the server again when it dies, so that runs in progress never notice for long.

The runner does it, as it lives as long as anything is executed, and `grpo down` ends it before the
server. A run whose server is away goes on; what it could not tell of its end is told here.
"""

import fcntl
import logging
import threading
import time

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


class ServerKeeper:
    """Knows what is left to do for the server.

    Args:
        project: Whose server.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._is_telling_due = False

    def watch(self) -> None:
        """Check again and again, less often while that is of no use."""
        pause = CHECK_SECONDS
        while True:
            time.sleep(pause)
            done = self.check()
            pause = CHECK_SECONDS if done else min(2 * pause, LONGEST_PAUSE_SECONDS)

    def check(self) -> bool:
        """Start a server that died, then tell it what it missed.

        Returns:
            False when something of that is left to do, or somebody else is at it.
        """
        if not self._is_telling_due and not has_died(self._project):
            return True
        with (self._project.state / "up.lock").open("w", encoding="ascii") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if has_died(self._project) and not self._start():
                return False
            return not self._is_telling_due or self._tell()

    def _start(self) -> bool:
        logger.warning("the Prefect server died: starting it again")
        try:
            start_server(self._project, at_old_port=True)  # the runner knows no other address
        except (GrpoError, OSError) as error:
            logger.error("the Prefect server could not be started again: %s", error)
            return False
        self._is_telling_due = True
        return True

    def _tell(self) -> bool:
        server = find_server(self._project)
        if server is not None:  # else somebody stopped it; the next `grpo up` tells
            client = client_of(self._project, server).patient(ANSWER_SECONDS)
            try:
                for line in reconcile(self._project, client, has_runner=True):
                    logger.warning("%s", line)
            except (GrpoError, OSError) as error:
                logger.error("what ended meanwhile could not be told, tried again: %s", error)
                return False
        self._is_telling_due = False
        return True
