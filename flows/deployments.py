"""The deployments and the process that executes them: `python -m flows.deployments`.

The process registers `grpo/full` and one deployment per stage, writes a ready file, then polls for
runs until SIGTERM. `--register-only` registers and ends, for a runner that is already polling.
Deployments that `prefect deploy` has given to a work pool are left to its workers.
"""

import argparse
import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType

from flows.api import ApiClient
from flows.deployment_names import FLOW_NAME, RUNS_AT_A_TIME
from flows.local import BUSY_SECONDS
from flows.patient_runner import bear_with_full_disk, bear_with_server
from flows.pipeline import ALL_STAGES, grpo
from flows.project import this_project
from flows.scheduling import kept_schedules
from flows.server_keeper import keep_server
from grpo_core.types import StageName

DESCRIPTIONS = {
    StageName.INGEST: "Read prompts, split them by problem, put bad rows into quarantine.",
    StageName.PREFILTER: "Sample each train prompt, grade, and band it by pass rate.",
    StageName.VARIANTS: "Rewrite problems with new numbers and recomputed answers.",
    StageName.REF_LOGP: "Fill the cache with log-probs of the frozen reference.",
    StageName.TRAIN: "GRPO over phases with rising token budgets.",
    StageName.EVALUATE: "pass@k on test prompts for the base and every phase.",
    StageName.AUDIT: "Run the SQL audits; a blocking one that finds rows fails the run.",
}


def make_deployments() -> list[RunnerDeployment]:
    """`full` and one per stage: the same flow with other default stages."""
    named = {"full": ALL_STAGES} | {stage.value: (stage,) for stage in StageName}
    make: Callable[..., Any] = grpo.to_deployment
    return [
        make(
            name,
            parameters={"stages": [stage.value for stage in stages]},
            description=DESCRIPTIONS[stages[0]] if len(stages) == 1 else grpo.description,
            tags=["grpo"],
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        for name, stages in named.items()
    ]


def api_client() -> ApiClient:
    """A client of the server that this process's environment names."""
    return ApiClient(os.environ["PREFECT_API_URL"], this_project().server_settings().api_auth)


def main() -> None:
    """Register, say that we are ready, and execute runs until told to stop."""
    parser = argparse.ArgumentParser(description="Executes the runs of the grpo deployments.")
    parser.add_argument("--ready-file", type=Path, help="gets our process id once registered")
    parser.add_argument("--register-only", action="store_true", help="register and end")
    arguments = parser.parse_args()
    bear_with_server()
    bear_with_full_disk()
    runner = Runner(name="grpo", limit=RUNS_AT_A_TIME, pause_on_shutdown=False)
    client = api_client().patient(BUSY_SECONDS)
    with kept_schedules(client):
        pools = client.pools(FLOW_NAME)
        for deployment in make_deployments():
            if deployment.name not in pools:
                runner.add_deployment(deployment)
    if arguments.ready_file:
        arguments.ready_file.write_text(f"{os.getpid()}\n", encoding="ascii")
    if not arguments.register_only:
        keep_server(this_project())
        asyncio.run(runner.start())


if __name__ == "__main__":
    main()
