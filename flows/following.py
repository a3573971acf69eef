"""Triggers a deployment and stays with its run until it ends, whatever happens on the way."""

import fcntl
import json
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from flows.api import BROKEN, ApiClient, FlowRun
from flows.conclusion import conclude
from flows.console import err, say
from flows.deployment_names import FLOW_NAME, RUNS_AT_A_TIME
from flows.local import BUSY_SECONDS, ensure_up, find_runner
from flows.progress import RunProgress
from flows.project import Project, this_project
from flows.request import Request, run_tags
from flows.view import RunView, make_view
from grpo_core.errors import ServiceError
from grpo_core.paths import resolve_path
from grpo_core.stages.stopping import request_stop
from grpo_core.store.progress import read_events

READ_SECONDS = 0.25
ASK_SECONDS = 1.0
PICKUP_SECONDS = 90.0
"""A runner that polls takes a run in a few seconds; Prefect's own start of a flow takes 5 more."""
WORKER_SECONDS = 30.0
"""How long a run on a work pool waits for a worker to come online."""
GONE_SECONDS = 20.0
"""How long neither a runner nor a flow process may be seen before the run counts as crashed."""
SILENT_SERVER_SECONDS = 60.0
UNRECORDED_SECONDS = 60.0
"""How long a run that has ended by its own record may count as running."""
WORKS_ON = "nothing was heard of the run for a while, but its process works"
UNTOLD = "the server has not recorded how the run ended; `grpo up` tells it"
LEAVE = "Ctrl-C again leaves it and returns"
DETACHED = 130
_STATE_TYPES = {"Completed": "COMPLETED", "Failed": "FAILED", "Stopped": "CANCELLED"}


def execute(request: Request, console: Console) -> int:
    """Validate, make sure that something executes, trigger, follow, summarise.

    Returns:
        Exit code: 0 completed, 1 failed, crashed or cancelled, 130 left running.
    """
    lake = resolve_path(request.config.execution.lake)
    if request.fork:
        from grpo_core.planning.fork import resolve_fork
        from grpo_core.store.lake import Lake

        resolve_fork(Lake(lake), request.fork)
    project = this_project()
    client = ensure_up(project, say)
    path = lake / "runs" / request.run_name / "progress.jsonl"
    offset = path.stat().st_size if path.exists() else 0
    title = f"{request.run_name} {request.target}"
    tags = run_tags(request.run_name, request.preset)
    flow_run = client.patient(BUSY_SECONDS).create_flow_run(
        f"{FLOW_NAME}/{request.target}", request.parameters(), name=title, tags=tags
    )
    say(f"flow run {client.url.removesuffix('/api')}/runs/flow-run/{flow_run.id}")
    progress = RunProgress(flow_run.id)
    with make_view(err, progress, title) as view:
        follower = Follower(project, client, flow_run, path, offset, progress, view)
        ended = follower.follow()
    if not ended.is_final:
        say(f"left running; watch it with: grpo watch --run {request.run_name}")
        return DETACHED
    return conclude(request, ended, progress, console)


@dataclass
class Follower:
    """Reads the run's progress file and asks the server for the run's state.

    Args:
        project: Whose runner executes the run.
        client: The server.
        flow_run: The run, as created.
        path: The run's progress.jsonl.
        offset: Where the file ended before the run was created.
        progress: Takes in the events.
        view: Shows them.
    """

    project: Project
    client: ApiClient
    flow_run: FlowRun
    path: Path
    offset: int
    progress: RunProgress
    view: RunView
    _asked_at: float = 0.0
    _answered_at: float = field(default_factory=time.monotonic)
    _created_at: float = field(default_factory=time.monotonic)
    _worked_at: float = field(default_factory=time.monotonic)
    _ended_at: float | None = None
    _unsure_at: float | None = None
    _interrupts: int = 0

    def follow(self) -> FlowRun:
        """Until the run ends, or until the second Ctrl-C.

        Raises:
            ServiceError: Nobody takes the run, or server and run are gone.
        """
        while not self.flow_run.is_final and self._interrupts < 2:
            try:
                self._ask()
                self._read()
                self._check_pickup()
                self._check_worker()
                self._check_outcome()
                time.sleep(READ_SECONDS)
            except KeyboardInterrupt:
                self._interrupts += 1
                self._interrupted()
        self._read()
        outcome = self.progress.outcome
        if self.flow_run.state_type in BROKEN and outcome and outcome["state"] == "Completed":
            self._take_outcome(outcome)  # its last word did not reach the server
        if self.flow_run.is_final:
            self.progress.close()
        return self.flow_run

    def _read(self) -> None:
        events, self.offset = read_events(self.path, self.offset)
        mine = self.progress.apply(events)
        self.view.show(mine, self.flow_run.state_type)

    def _ask(self) -> None:
        now = time.monotonic()
        if now - self._asked_at < ASK_SECONDS:
            return
        self._asked_at = now
        try:
            self.flow_run = self._read_flow_run()
            self._answered_at = time.monotonic()
        except ServiceError:
            self._without_server()

    def _read_flow_run(self) -> FlowRun:
        """As the server has it, unless it counts as crashed what works: the machine slept, say."""
        found = self.client.read_flow_run(self.flow_run.id)
        if found.state_type != "CRASHED" or worker_of(run_lock(self.path.parent)) != found.id:
            return found
        self.client.mark_running(found.id, WORKS_ON)
        self.view.say(f"{WORKS_ON}; it was counted as crashed")
        return replace(found, state_type="RUNNING", message="")

    def _without_server(self) -> None:
        """The server is silent: the run goes on, and its own record says how it ends."""
        silent = time.monotonic() - self._answered_at
        if self.progress.outcome is not None:
            self._take_outcome(self.progress.outcome)
        elif silent > SILENT_SERVER_SECONDS and not is_held(run_lock(self.path.parent)):
            raise ServiceError(
                f"the Prefect server has not answered for {silent:.0f} s and nobody works on "
                f"run {self.path.parent.name}",
                hint=f"`grpo up` starts the server again; its log is {self.project.log('server')}",
            )

    def _check_pickup(self) -> None:
        """Refuse to wait for a run that nobody will execute."""
        if self.progress.has_started or self.flow_run.state_type != "SCHEDULED":
            return
        pool, waited = self.flow_run.work_pool, time.monotonic() - self._created_at
        try:
            is_alive = self.client.has_worker(pool) if pool else self._has_runner()
            is_early = waited < (PICKUP_SECONDS if is_alive else WORKER_SECONDS if pool else 0.0)
            is_queued = is_alive and not is_early and self._is_queued()
        except ServiceError:  # who executes was without the server, too
            self._created_at = now = time.monotonic()
            self._unsure_at = now if self._unsure_at is None else self._unsure_at
            if now - self._unsure_at > SILENT_SERVER_SECONDS:
                raise
            return
        self._unsure_at = None
        if is_early:
            return
        if is_queued:
            self._created_at = time.monotonic()
            self.view.say(f"waiting: {RUNS_AT_A_TIME} runs are in progress, this one is next")
            return
        self.client.cancel(self.flow_run.id)
        who = f"a worker of pool {pool!r}" if pool else "the runner"
        why = "did not take it" if is_alive else "is not alive"
        local = f"`grpo down && grpo up`, then again; its log is {self.project.log('runner')}"
        raise ServiceError(
            f"{who} {why} within {waited:.0f} s, so the run was cancelled",
            hint=f"prefect worker start --pool {pool}" if pool else local,
        )

    def _check_outcome(self) -> None:
        """The run has ended, but the server can not record it, its disk being full, say."""
        if self.flow_run.is_final or self.progress.outcome is None:
            return
        now = time.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        if now - self._ended_at > UNRECORDED_SECONDS and not is_held(run_lock(self.path.parent)):
            self.view.say(UNTOLD)
            self._take_outcome(self.progress.outcome)

    def _take_outcome(self, outcome: Mapping[str, Any]) -> None:
        state = _STATE_TYPES[outcome["state"]]
        self.flow_run = replace(self.flow_run, state_type=state, message=outcome["error"])

    def _check_worker(self) -> None:
        """Runner and flow both killed: nobody else would ever tell the server."""
        if self.flow_run.is_final or self.flow_run.state_type == "SCHEDULED":
            return
        if self.flow_run.work_pool:  # it may be on another machine: its heartbeats tell
            return
        if self._has_runner() or is_held(run_lock(self.path.parent)):
            self._worked_at = time.monotonic()
        elif time.monotonic() - self._worked_at > GONE_SECONDS:
            self._end_as_crashed("runner and flow process are gone")

    def _end_as_crashed(self, message: str) -> None:
        try:
            self.client.mark_crashed(self.flow_run.id, message)
        except ServiceError as error:
            self.view.say(f"{UNTOLD}: {error.message}")
            if self.progress.outcome is not None:
                self._take_outcome(self.progress.outcome)
                return
        self.flow_run = replace(self.flow_run, state_type="CRASHED", message=message)

    def _has_runner(self) -> bool:
        return find_runner(self.project) is not None

    def _is_queued(self) -> bool:
        active = self.client.active_flow_runs(FLOW_NAME)
        taken = [run for run in active if run.state_type != "SCHEDULED" and not run.work_pool]
        return len(taken) >= RUNS_AT_A_TIME

    def _interrupted(self) -> None:
        if self._interrupts > 1:
            return
        try:
            self._ask_to_stop()
        except KeyboardInterrupt:  # while the server or the run was asked
            self._interrupts += 1

    def _ask_to_stop(self) -> None:
        try:
            self.client.cancel(self.flow_run.id)
        except ServiceError:
            self._stop_by_lake()
        else:
            self.view.say(f"asked the run to stop; {LEAVE}")

    def _stop_by_lake(self) -> None:
        """Without the server the run can only be asked as `grpo stop` does."""
        directory = self.path.parent
        if not is_held(run_lock(directory)):
            self.view.say(
                f"the Prefect server does not answer and nobody works on the run; {LEAVE}"
            )
            return
        try:
            ask_worker(directory)
        except OSError as error:
            self.view.say(
                "the Prefect server does not answer and the run can not be asked to stop: "
                f"{error}; {LEAVE}"
            )
            return
        self.view.say(
            "the Prefect server does not answer, so the run goes on to the end of the unit in work "
            f"and stops there; {LEAVE}"
        )


def ask_worker(directory: Path) -> None:
    """Ask whoever holds the lock of the run in `lake/runs/<run>` to stop after the unit in work.

    Raises:
        OSError: The request can not be written.
    """
    time.sleep(READ_SECONDS)  # who has just taken it first drops requests meant for an earlier one
    who = os.environ.get("USER") or os.getuid()  # a container may know no names
    request_stop(directory, f"{who}@{socket.gethostname()}")


def run_lock(directory: Path) -> Path:
    """Lock file of the run in `lake/runs/<run>`."""
    return directory.parents[1] / "locks" / f"run-{directory.name}.lock"


def worker_of(lock: Path) -> str:
    """Id of the flow run that holds the run's lock; empty when nobody does, or no flow run."""
    if not is_held(lock):
        return ""
    try:
        holder = str(json.loads(lock.read_text(encoding="utf-8"))["holder"])
    except (ValueError, KeyError, TypeError):  # it has just taken it
        return ""
    named = re.search(r", flow run (\S+) on ", holder)
    return named[1] if named and named[1] != "none" else ""


def is_held(lock: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        with lock.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
