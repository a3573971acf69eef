"""Hands the deployments to a process work pool and back, under the same names.

`prefect.yaml` describes the pool's deployments, so the same can be typed by hand:
`prefect work-pool create grpo --type process`, `prefect deploy --all`,
`prefect worker start --pool grpo`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from flows.api import ApiClient
from flows.deployment_names import FLOW_NAME, WORK_POOL
from flows.project import Project
from flows.request import run_name_of
from flows.scheduling import kept_schedules
from flows.server import call
from grpo_core.errors import ServiceError

Notify = Callable[[str], None]


def give_to_pool(project: Project, client: ApiClient, notify: Notify) -> None:
    """Deploy everything in prefect.yaml to its work pool, which is made when it is not there.

    Raises:
        ServiceError: Runs are in progress, or `prefect deploy` failed.
    """
    if client.pools(FLOW_NAME).keys() != client.deployments(FLOW_NAME).keys():
        _refuse_during_runs(client)
    client.ensure_pool(WORK_POOL)
    command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", "deploy", "--all"]
    with kept_schedules(client):
        call(project, command, client.url, "prefect deploy --all failed")
    notify(f"workers execute from now on: prefect worker start --pool {WORK_POOL}")


def take_back(client: ApiClient, notify: Notify) -> None:
    """Let the local runner execute again; schedules and what follows other runs stay.

    Raises:
        ServiceError: Runs are in progress.
    """
    pooled = client.pools(FLOW_NAME)
    if not pooled:
        notify("the local runner executes already")
        return
    _refuse_during_runs(client)
    found = client.deployments(FLOW_NAME)
    with kept_schedules(client):
        for name in pooled:
            client.leave_pool(found[name]["id"])
    notify("the local runner executes from now on")


def _refuse_during_runs(client: ApiClient) -> None:
    """Who works now is asked nothing: another executor would leave runs waiting for nobody."""
    names = sorted({run_name_of(run.parameters) for run in client.active_flow_runs(FLOW_NAME)})
    if names:
        raise ServiceError(
            f"who executes can not change while runs are in progress: {', '.join(names)}",
            hint="wait for them, or end them with `grpo stop --run NAME`",
        )
