"""`grpo stop`: ends a run after the unit in work, wherever it is executed."""

import os
import socket
from pathlib import Path
from typing import Any

from flows.api import ApiClient, FlowRun
from flows.console import say
from flows.deployment_names import FLOW_NAME
from flows.following import is_held, run_lock
from flows.project import Project
from flows.request import default_run_name
from flows.server import client_of, find_server
from flows.watching import watch
from grpo_core.errors import DataContractError, ServiceError
from grpo_core.stages.records import RunRecords
from grpo_core.stages.stopping import request_stop
from grpo_core.store.files import read_json

STOPPED = frozenset({"Stopped", "Completed"})


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
    """
    server = find_server(project)
    client = client_of(project, server) if server else None
    waiting = [run for run in _runs(client, directory.name) if run.state_type == "SCHEDULED"]
    for run in waiting:
        assert client is not None
        client.cancel(run.id)
        say(f"cancelled {run.name!r}, which had not begun")
    if not is_held(run_lock(directory)):
        if waiting:
            return 0
        raise DataContractError(
            f"nobody works on run {directory.name!r} in {directory.parents[1]}",
            hint="`grpo status` lists the runs in progress",
        )
    if now:
        _cancel(client, directory)
    else:
        who = os.environ.get("USER") or os.getuid()  # a container may know no names
        request_stop(directory, f"{who}@{socket.gethostname()}")
        say("asked the run to stop after the unit in work; Ctrl-C only stops watching")
    watch(directory)
    return 0 if _last_state(directory) in STOPPED else 1


def _runs(client: ApiClient | None, run: str) -> list[FlowRun]:
    active = client.active_flow_runs(FLOW_NAME) if client is not None else []
    return [flow_run for flow_run in active if run_of(flow_run) == run]


def run_of(flow_run: FlowRun) -> str:
    """Name of the run in the lake that a flow run works on."""
    given = flow_run.parameters
    return given.get("run") or default_run_name(given.get("preset") or "tiny")


def _cancel(client: ApiClient | None, directory: Path) -> None:
    flow_run = _attempt(directory)["request"]["flow_run"]
    if client is None or not flow_run:
        raise ServiceError(
            f"run {directory.name!r} is not known to a server that runs here",
            hint="without --now it stops after the unit in work, wherever it is executed",
        )
    client.cancel(flow_run)
    say("asked Prefect to cancel the run")


def _last_state(directory: Path) -> str:
    return str(_attempt(directory)["state"])


def _attempt(directory: Path) -> dict[str, Any]:
    number = int(RunRecords(directory).latest["attempt"])
    record: dict[str, Any] = read_json(directory / "attempts" / f"{number:04d}.json")
    return record
