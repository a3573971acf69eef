"""How a flow run ended, as its run in the lake says: the server may have been away by then."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flows.api import FlowRun
from grpo_core.errors import GrpoError

_UNREADABLE = (GrpoError, OSError, ValueError, TypeError, AttributeError, KeyError)
"""Says that a record is torn, not to be read from here, or of a form that we do not know."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final state that a flow run is to have.

    Args:
        state_type: COMPLETED, FAILED or CANCELLED.
        state_name: Its name in the UI.
        message: What the state says.
        began_at: When the attempt began that says so.
    """

    state_type: str
    state_name: str
    message: str
    began_at: datetime


def outcome_of(run: FlowRun) -> Outcome | None:
    """What the latest attempt that the flow run made says of its end.

    A flow run that is tried again keeps its id, so that may be an attempt of an earlier try. Torn
    and odd records are passed over.

    Returns:
        None when it has not ended by itself, and when there is no such attempt or it can not be
        read from here.
    """
    from flows.request import lake_of, run_name_of
    from grpo_core.store.run_records import attempt_files, read_attempt

    lake = lake_of(run.parameters)
    if lake is None:
        return None
    try:
        paths = attempt_files(lake / "runs" / run_name_of(run.parameters))
    except (GrpoError, OSError):  # a lake of another machine
        return None
    for path in reversed(paths):
        try:
            attempt = read_attempt(path)
            if attempt["request"]["flow_run"] == run.id:
                return _outcome(run, attempt)
        except _UNREADABLE:  # another may be of the run
            continue
    return None


def _outcome(run: FlowRun, attempt: dict[str, Any]) -> Outcome | None:
    from flows.request import WAY_ON, command_of
    from grpo_core.types import StageName

    state, error, began = (attempt.get(name) for name in ("state", "error", "started_at"))
    if began is None:  # made again from run.json: nobody knows when it was
        return None
    began_at = datetime.fromisoformat(began)
    if began_at.tzinfo is None:
        raise ValueError(f"{began!r} names no time zone")
    if state == "Completed":
        return Outcome("COMPLETED", state, "it completed while the server was away", began_at)
    if state not in ("Failed", "Stopped") or not error:  # ended from outside: nothing to tell
        return None
    begun = list(dict.fromkeys(node["stage"] for node in attempt["nodes"]))
    finished = [StageName(stage) for stage in begun[:-1]]
    message = f"{error}{WAY_ON}{command_of(run.parameters, finished)}"
    return Outcome("FAILED" if state == "Failed" else "CANCELLED", state, message, began_at)
