"""The one flow: the stages of GRPO post-training in order.

Deployments `grpo/full` and `grpo/<stage>` are this flow with different default `stages`. A stage
whose result exists under the same key is `Reused`; a stage whose inputs are missing fails with the
name of the stage to run first.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import coolname.data
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows.alerts import emit_completed
from flows.deployment_names import FLOW_NAME, SKIPPED
from flows.logs import calm_expected_errors
from flows.parameters import ConfigFile, Forced, Fork, Overrides, Preset, Run, Stages
from flows.project import this_project
from flows.publishing import add_tags
from flows.replanning import is_of_schedule
from flows.request import WAY_ON, command_of, default_run_name, run_tags
from flows.stages import run_stage_task, write_report_task
from flows.supervisor import has_lost_runner, supervised
from grpo_core.config import load_config
from grpo_core.errors import GrpoError, RunBusyError, RunStoppedError
from grpo_core.planning.fork import resolve_fork
from grpo_core.stages import RunSession, lake_root
from grpo_core.stages.faults import machine_faults_named
from grpo_core.store.lake import Lake
from grpo_core.types import StageName

ALL_STAGES = tuple(StageName)

_NAME_OF_FORM = re.compile(r"[a-z]+\d+-[a-z]+-[a-z]+")
"""What the form in the UI makes up (epsilon5-mordor-reach)."""


def run_title(run: str, stages: Sequence[str]) -> str:
    """Name of a flow run in the UI: the run, and what it covers."""
    return f"{run} {target_of(stages)}"


def target_of(stages: Sequence[str]) -> str:
    """`full`, or the names of the stages."""
    whole = len(set(stages)) == len(ALL_STAGES)
    return "full" if whole else "+".join(str(stage) for stage in stages)


def flow_run_title() -> str:
    """The name that the user gave, else a readable one instead of Prefect's two random words."""
    name, given = flow_run.name or "", flow_run.parameters
    if name and not _is_generated(name):
        return name
    run = given.get("run") or given.get("preset") or "tiny"
    return run_title(run, tuple(given.get("stages") or ALL_STAGES))


def _is_generated(name: str) -> bool:
    """Whether Prefect made the name up, from its own lists of words (fluffy-otter) or in its UI."""
    rules: dict[str, Any] = dict(coolname.data.config)
    words = {word for rule in rules.values() for word in rule.get("words", ())}
    parts = name.split("-")
    return bool(_NAME_OF_FORM.fullmatch(name)) or (len(parts) == 2 and words.issuperset(parts))


def _is_scheduled() -> bool:
    """Whether a schedule made this flow run; tags would tell that of a copy of it, too."""
    context = FlowRunContext.get()
    made = context.flow_run if context is not None else None
    return made is not None and is_of_schedule(made.idempotency_key)


@flow(name=FLOW_NAME, flow_run_name=flow_run_title)
def grpo(
    preset: Preset = "tiny",
    run: Run = "",
    stages: Stages = ALL_STAGES,
    overrides: Overrides = (),
    config_file: ConfigFile = "",
    force: Forced = (),
    fork: Fork = "",
) -> State[None]:
    """Post-train a language model with GRPO, from prompts to audited results.

    Args:
        preset: Shipped configuration to start from.
        run: Name of the run in the lake: letters, digits, _ and -; empty means the preset's.
        stages: Stages to run, always in the order of the pipeline.
        overrides: Single settings as section.field=value, for example train.group_size=16; all
            of them are in docs/config.md.
        config_file: TOML file on the machine that executes, laid over the preset.
        force: Stages to compute again even when their result exists.
        fork: RUN:PHASE[:STEP] of another run whose training state this run goes on from.
    """
    calm_expected_errors()
    name = run or default_run_name(preset)
    states: dict[StageName, State[Any]] = {}
    add_tags(run_tags(name, preset))
    try:
        record = this_project().flow_process(str(flow_run.id))
        with machine_faults_named(), supervised(record):
            _run(states, name, preset, stages, overrides, config_file, force, fork)
    except TerminationSignal:
        if not has_lost_runner():
            raise
        why = "the runner was killed, so the run ended; what is complete is kept"
        return Crashed(message=f"{why}{_way_on(states)}")
    except RunStoppedError as stop:
        return Cancelled(name="Stopped", message=f"{stop}{_way_on(states)}", data=stop)
    except GrpoError as error:
        if isinstance(error, RunBusyError) and _is_scheduled():
            why = f"{error.message}; what a schedule starts meanwhile is left out"
            return Cancelled(name=SKIPPED, message=why)
        return Failed(message=f"{error}{_way_on(states)}", data=error)
    emit_completed(name, target_of(stages))
    reused = sum(state.name == "Reused" for state in states.values())
    return Completed(message=f"{reused} of {len(states)} stages reused; run {name}")


def _run(
    states: dict[StageName, State[Any]],
    name: str,
    preset: str,
    stages: Sequence[StageName],
    overrides: Sequence[str],
    config_file: str,
    force: Sequence[StageName],
    fork: str,
) -> None:
    """Run the chosen stages in order; `states` gets the state of each that is finished."""
    config = load_config(
        preset, config_file=Path(config_file) if config_file else None, overrides=overrides
    )
    chosen = tuple(stage for stage in ALL_STAGES if stage in stages)
    root = lake_root(config)
    with RunSession.open(
        config,
        root=root,
        run=name,
        stages=chosen,
        force=force,
        fork=resolve_fork(Lake(root), fork) if fork else None,
        flow_run=flow_run.id or "",
    ) as session:
        for stage in chosen:
            states[stage] = run_stage_task(stage, session.directory)
        write_report_task(session.directory)


def _way_on(finished: Collection[StageName]) -> str:
    """The command that goes on with this flow run's work."""
    return f"{WAY_ON}{command_of(flow_run.parameters, finished)}"
