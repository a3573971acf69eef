"""Hands the deployments to a process work pool and back, under the same names.

`prefect.yaml` describes the pool's deployments, so the same can be typed by hand:
`prefect work-pool create grpo --type process`, `prefect deploy --all`,
`prefect worker start --pool grpo`.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from flows.api import ApiClient
from flows.deployment_names import FLOW_NAME, WORK_POOL
from flows.project import Project
from grpo_core.errors import ServiceError

Notify = Callable[[str], None]


def give_to_pool(project: Project, client: ApiClient, notify: Notify) -> None:
    """Deploy everything in prefect.yaml to its work pool, which is made when it is not there.

    Raises:
        ServiceError: `prefect deploy` failed.
    """
    client.ensure_pool(WORK_POOL)
    command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command,
        cwd=project.root,
        env=project.environment(client.url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ServiceError(f"prefect deploy --all failed:\n{(done.stdout + done.stderr)[-2000:]}")
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
