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
from flows.scheduling import keep_schedules
from flows.server import call

Notify = Callable[[str], None]


def give_to_pool(project: Project, client: ApiClient, notify: Notify) -> None:
    """Deploy everything in prefect.yaml to its work pool, which is made when it is not there.

    Raises:
        ServiceError: `prefect deploy` failed.
    """
    client.ensure_pool(WORK_POOL)
    keep_schedules(client)
    command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", "deploy", "--all"]
    call(project, command, client.url, "prefect deploy --all failed")
    notify(f"workers execute from now on: prefect worker start --pool {WORK_POOL}")


def take_back(client: ApiClient, notify: Notify) -> None:
    """Let the local runner execute again; schedules and what follows other runs stay."""
    pooled = client.pools(FLOW_NAME)
    found = client.deployments(FLOW_NAME)
    for name in pooled:
        client.leave_pool(found[name]["id"])
    notify(
        "the local runner executes from now on" if pooled else "the local runner executes already"
    )
