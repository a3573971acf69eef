"""`grpo watch`: follows the record that a run keeps of itself.

Only what leaves no record is asked of the server: a flow run that waits, or failed at its start.
"""

import time
from datetime import datetime
from pathlib import Path

from flows.api import ApiClient, FlowRun
from flows.conclusion import say_outcome
from flows.console import err, say
from flows.deployment_names import FLOW_NAME, SKIPPED
from flows.following import ASK_SECONDS, READ_SECONDS, is_held, run_lock
from flows.progress import RunProgress
from flows.request import is_of_run
from flows.transport import ANSWER_SECONDS
from flows.view import make_view
from grpo_core.errors import DataContractError, ServiceError
from grpo_core.store.progress import read_events

GLANCE_SECONDS = 3.0
"""How long a server may take that is asked only whether there is more than the record says."""


def watch(directory: Path, client: ApiClient | None) -> int:
    """Show the latest attempt below `lake/runs/<run>` until it ends.

    Args:
        directory: The run's directory.
        client: The server that knows of flow runs which have not begun, if there is one.

    Returns:
        Exit code: 0 completed, 1 failed, stopped or gone, 130 after Ctrl-C.

    Raises:
        DataContractError: There is no such run.
    """
    try:
        unbegun = _ended_unbegun(directory, client)
        if unbegun is None:
            return _follow(directory)
    except KeyboardInterrupt:
        return 130
    say(f"{unbegun.name!r} has left no record in {directory.parents[1]}")
    say_outcome(unbegun)
    return 1


def _follow(directory: Path) -> int:
    path = directory / "progress.jsonl"
    if not path.exists():
        raise DataContractError(
            f"there is no run {directory.name!r} in {directory.parents[1]}",
            hint="`grpo run` starts one; --lake names another lake",
        )
    progress = RunProgress()
    offset = 0
    with make_view(err, progress, directory.name) as view:
        while True:
            is_worked_on = is_held(run_lock(directory))
            events, offset = read_events(path, offset)
            view.show(progress.apply(latest_attempt(events)), "RUNNING")
            if not is_worked_on:
                break
            time.sleep(READ_SECONDS)
    outcome = progress.outcome
    if outcome is None:
        say("nobody works on it and it has not ended: its process was killed")
        return 1
    say(f"{outcome['state']}{': ' if outcome['error'] else ''}{outcome['error']}")
    return 0 if outcome["state"] == "Completed" else 1


def _ended_unbegun(directory: Path, client: ApiClient | None) -> FlowRun | None:
    """The run's latest flow run if it ended without a record; until it begins it is waited for."""
    found = None if client is None else _latest(client, directory)
    is_said = False
    while client is not None and found is not None and not _has_begun(directory, found):
        if found.is_final:
            return None if found.state_type == "COMPLETED" else found
        if not is_said:
            say(f"{found.name!r} is {found.state_type.lower()}: waiting until it begins")
            is_said = True
        time.sleep(ASK_SECONDS)
        found = client.read_flow_run(found.id)
    return None


def _latest(client: ApiClient, directory: Path) -> FlowRun | None:
    has_record = (directory / "progress.jsonl").exists()
    timeout = GLANCE_SECONDS if has_record else ANSWER_SECONDS
    try:
        found = client.latest_flow_runs(FLOW_NAME, timeout=timeout)
    except ServiceError:  # the record of the run needs no server
        return None
    begun = (run for run in found if run.state_name != SKIPPED)
    return next((run for run in begun if is_of_run(run.parameters, directory)), None)


def _has_begun(directory: Path, flow_run: FlowRun) -> bool:
    """Whether the run's record is to be followed.

    It knows the flow run, or somebody works on the run now, or an attempt went on after the flow
    run had ended without one: a second start that found the name in use, say.
    """
    if is_held(run_lock(directory)) and (directory / "progress.jsonl").exists():
        return True
    events, _ = read_events(directory / "progress.jsonl")
    if any(e["event"] == "run_started" and e["flow_run"] == flow_run.id for e in events):
        return True
    if not events or not flow_run.is_final or flow_run.began_at is None:
        return False
    return datetime.fromisoformat(events[-1]["at"]) > flow_run.began_at


def latest_attempt(events: list[dict[str, object]]) -> list[dict[str, object]]:
    """The events from the last `run_started` on; all of them when there is none."""
    starts = [at for at, event in enumerate(events) if event["event"] == "run_started"]
    return events[starts[-1] :] if starts else events
