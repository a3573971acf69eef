"""One task per stage: call the stage, report it, pass paths and figures but never data."""

from pathlib import Path
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed

from flows.alerts import emit_fatal
from flows.forwarding import forward_progress
from flows.publishing import publish_audits, publish_report, publish_stage
from flows.sentences import duration
from grpo_core.errors import AuditFailedError, GrpoError, RunStoppedError
from grpo_core.stages import StageResult, run_stage
from grpo_core.store.lake import Lake
from grpo_core.types import StageName


def run_stage_task(stage: StageName, directory: Path) -> State[Any]:
    """Run the stage's task in this thread; its error, if any, is raised here as it was.

    The main thread matters: cancelling reaches a stage as an exception only there.
    """
    state = _TASKS[stage](directory, return_state=True)
    state.result()
    return state


def describe(result: StageResult) -> str:
    """One line on what the stage did."""
    reused = sum(node.state == "Reused" for node in result.nodes)
    parts = f"{len(result.nodes)} artefacts, {reused} reused"
    return f"{parts}, {duration(result.seconds)}, {result.tokens:,} tokens generated"


def _make_task(stage: StageName) -> Task[[Path], Any]:
    @task(
        name=stage.value,
        task_run_name=stage.value,
        description=f"Stage {stage.value} of GRPO post-training.",
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    def run(directory: Path) -> State[None]:
        try:
            with forward_progress(directory, stage):
                result = run_stage(directory, stage)
        except RunStoppedError as stop:
            return Cancelled(name="Stopped", message=str(stop), data=stop)
        except GrpoError as error:
            emit_fatal(directory.name, error)
            if isinstance(error, AuditFailedError):
                publish_audits(Lake(directory.parents[1]), directory.name)
            return Failed(message=str(error), data=error)
        publish_stage(Lake(directory.parents[1]), directory.name, result)
        return Completed(name=result.state, message=describe(result))

    return run


@task(name="report", task_run_name="report", cache_policy=NO_CACHE, persist_result=False)
def write_report_task(directory: Path) -> State[None]:
    """Write the run's HTML report into its directory."""
    path = publish_report(Lake(directory.parents[1]), directory.name)
    return Completed(name="Written", message=str(path))


_TASKS = {stage: _make_task(stage) for stage in StageName}
