"""`grpo stop`: ends a run after the unit in work, wherever it is executed."""

import time
from pathlib import Path
from typing import Any

from flows.api import ApiClient, FlowRun
from flows.console import say
from flows.deployment_names import FLOW_NAME
from flows.following import READ_SECONDS, WORKS_ON, ask_worker, is_held, run_lock, worker_of
from flows.project import Project
from flows.request import is_of_run
from flows.server import client_of, find_server
from flows.watching import watch
from grpo_core.errors import DataContractError, ServiceError
from grpo_core.stages.records import RunRecords

STOPPED = frozenset({"Stopped", "Completed"})
BEGIN_SECONDS = 60.0
"""How long a flow run that was taken may need until it holds the run's lock: imports, mostly."""
_TAKEN = frozenset({"PENDING", "RUNNING"})


def stop(project: Project, directory: Path, *, now: bool) -> int:
    """Stop the run in `lake/runs/<run>`, and say what is left of it.

    Args:
        project: Whose server knows the run.
        directory: The run's directory.
        now: Cancel it instead: the unit in work is given up and repeated by the next attempt.

    Returns:
        Exit code: 0 when the run has ended, 1 when it failed by itself meanwhile.

    Raises:
        DataContractError: Nobody works on the run and it waits nowhere.
        ServiceError: The server refuses to cancel it.
    """
    client, active = _ask(project, now=now)
    runs = [run for run in active if is_of_run(run.parameters, directory)]
    waiting = [run for run in runs if run.state_type == "SCHEDULED"]
    taken = [run for run in runs if run.state_type in _TAKEN]
    for run in waiting:
        _cancel_waiting(client, run)
    if not is_held(run_lock(directory)):
        if now and taken:
            for run in taken:
                _cancel_waiting(client, run)
            return 0
        if not _begins(client, taken, directory):
            if waiting:
                return 0
            raise DataContractError(
                f"nobody works on run {directory.name!r} in {directory.parents[1]}",
                hint="`grpo status` lists the runs in progress",
            )
    flow_runs = _at_work(directory, taken)
    if now:
        _cancel(client, directory, flow_runs)
    else:
        ask_worker(directory)
        say("asked the run to stop after the unit in work; Ctrl-C only stops watching")
    _wait_for_progress(directory)
    code = watch(directory, client)
    return 0 if code == 0 or _has_stopped(client, directory, flow_runs, now=now) else 1


def _ask(project: Project, *, now: bool) -> tuple[ApiClient | None, list[FlowRun]]:
    """The server and the runs in progress; without one that answers a run can still be asked."""
    server = find_server(project)
    client = client_of(project, server) if server else None
    try:
        return client, client.active_flow_runs(FLOW_NAME) if client is not None else []
    except ServiceError as error:
        if now:
            raise
        _go_on_without(error)
        return None, []


def _go_on_without(error: ServiceError) -> None:
    say(f"going on without the server: {error.message}")


def _cancel_waiting(client: ApiClient | None, run: FlowRun) -> None:
    assert client is not None
    client.cancel(run.id)
    say(f"cancelled {run.name!r}, which had not begun")


def _begins(client: ApiClient | None, taken: list[FlowRun], directory: Path) -> bool:
    """Wait until one of the flow runs that a runner or worker took works on the run.

    Returns:
        Whether one does; False when all of them ended, or none began in `BEGIN_SECONDS`.
    """
    if client is None or not taken:
        return False
    say("the run is being picked up; waiting until it can be asked")
    deadline = time.monotonic() + BEGIN_SECONDS
    is_said = False
    while time.monotonic() < deadline:
        if is_held(run_lock(directory)):
            return True
        try:
            if all(client.read_flow_run(run.id).is_final for run in taken):
                return False
        except ServiceError as error:  # the lock tells when one begins
            if not is_said:
                _go_on_without(error)
            is_said = True
        time.sleep(READ_SECONDS)
    return False


def _wait_for_progress(directory: Path) -> None:
    """A first attempt that hashes its weights has nothing to watch yet."""
    while is_held(run_lock(directory)) and not (directory / "progress.jsonl").exists():
        time.sleep(READ_SECONDS)


def _at_work(directory: Path, taken: list[FlowRun]) -> list[str]:
    """Ids of the flow runs that may hold the run's lock; the latest attempt may be one before."""
    holder = worker_of(run_lock(directory))
    return [holder] if holder else [run.id for run in taken]


def _cancel(client: ApiClient | None, directory: Path, flow_runs: list[str]) -> None:
    if client is None or not flow_runs:
        raise ServiceError(
            f"run {directory.name!r} is not known to a server that runs here",
            hint="without --now it stops after the unit in work, wherever it is executed",
        )
    for flow_run in flow_runs:
        if client.read_flow_run(flow_run).state_type == "CRASHED":
            client.mark_running(flow_run, WORKS_ON)
        client.cancel(flow_run)
    say("asked Prefect to cancel the run")


def _has_stopped(
    client: ApiClient | None, directory: Path, flow_runs: list[str], *, now: bool
) -> bool:
    """Whether the attempt ended as it was asked to; it may have ended before it left a record."""
    attempt = _latest_attempt(directory)
    if client is None or not flow_runs or attempt.get("request", {}).get("flow_run") in flow_runs:
        return attempt.get("state") in STOPPED
    try:
        states = {client.read_flow_run(flow_run).state_type for flow_run in flow_runs}
    except ServiceError as error:
        if now:
            raise
        _go_on_without(error)
        return attempt.get("state") in STOPPED
    return states <= {"CANCELLING", "CANCELLED", "COMPLETED"}


def _latest_attempt(directory: Path) -> dict[str, Any]:
    """The record of the run's latest attempt; empty before its first."""
    records = RunRecords(directory)
    number = int(records.latest["attempt"])
    return records.attempt(number) if number > 0 else {}
