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
from flows.server import client_of, start_server
from grpo_core.errors import ServiceError

CHECK_SECONDS = 2.0
ANSWER_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 300.0
logger = logging.getLogger(__name__)


def keep_server(project: Project) -> threading.Thread:
    """Watch the project's server from a thread of this process, as long as the process lives."""
    thread = threading.Thread(target=_watch, args=(project,), name="keep-server", daemon=True)
    thread.start()
    return thread


def has_died(project: Project) -> bool:
    """Whether there was a server that nobody stopped and that lives no more."""
    record = read_record(project.record("server"))
    return record is not None and not record.is_alive()


def revive(project: Project) -> bool:
    """Start a server that died; False when it could not be started, or somebody else does it."""
    with (project.state / "up.lock").open("w", encoding="ascii") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if not has_died(project):
            return True
        logger.warning("the Prefect server died: starting it again")
        try:
            server = start_server(project, at_old_port=True)  # the runner knows no other address
            client = client_of(project, server).patient(ANSWER_SECONDS)
            for line in reconcile(project, client, has_runner=True):
                logger.warning("%s", line)
        except (ServiceError, OSError) as error:
            logger.error("the Prefect server could not be started again: %s", error)
            return False
    return True


def _watch(project: Project) -> None:
    pause = CHECK_SECONDS
    while True:
        time.sleep(pause)
        failed = has_died(project) and not revive(project)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS) if failed else CHECK_SECONDS
