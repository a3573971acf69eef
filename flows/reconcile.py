"""Brings the server's picture in line with the processes that really live, after any crash."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flows.api import BROKEN, ApiClient, FlowRun
from flows.deployment_names import FLOW_NAME
from flows.outcome import outcome_of
from flows.processes import ProcessRecord, read_record
from flows.project import Project
from flows.supervisor import sweep_orphans

_TAKEN = frozenset({"PENDING", "RUNNING", "CANCELLING"})
_BEGUN = frozenset({"RUNNING", "CANCELLING"})
BROKEN_FOR = timedelta(days=1)
"""How long a run that counts as crashed or failed is looked up: it may have completed."""


def reconcile(project: Project, client: ApiClient, *, has_runner: bool) -> list[str]:
    """Close runs that nobody executes any more and kill what they left behind.

    Args:
        project: Whose processes.
        client: Its server.
        has_runner: Whether the local runner lives; without one, a run that it took and for which
            there is no process is lost, with one it may just be starting.

    Returns:
        A sentence for each thing that was put right.
    """
    told = []
    orphans = sweep_orphans()
    if orphans:
        told.append(f"killed {orphans} processes that a crashed run had left behind")
    active = client.active_flow_runs(FLOW_NAME)
    told += _tell_outcomes(project, client, active)
    for run in active:
        if run.state_type in _TAKEN and _is_lost(project, client, run, has_runner=has_runner):
            told.append(_close(client, run))
    for run in counted_as_crashed(project, client, active):
        client.mark_running(run.id, "its process works")
        told.append(f"run {run.name!r} was counted as crashed, but its process works")
    _drop_records(project)
    return told


def counted_as_crashed(project: Project, client: ApiClient, active: list[FlowRun]) -> list[FlowRun]:
    """Runs that the server takes for crashed although their process works on this machine.

    It does so when a suspended machine wakes up: no heartbeat was heard meanwhile.

    Args:
        project: Whose processes.
        client: Its server.
        active: The runs that the server counts as active.

    Raises:
        ServiceError: It does not say how one of them counts.
    """
    known = {run.id for run in active}
    found = []
    for path in project.flow_processes():
        record = read_record(path)
        if path.stem not in known and record is not None and record.is_alive():
            run = client.find_flow_run(path.stem)  # None: a run of another database
            found += [run] if run is not None and run.state_type == "CRASHED" else []
    return found


def _tell_outcomes(project: Project, client: ApiClient, active: list[FlowRun]) -> list[str]:
    """Tell the server of runs that ended while it was away; `active` is left with the others.

    Only an attempt that began after the run was last taken tells its end: a flow run that is tried
    again keeps its id, and has no attempt of its own until its models are hashed.
    """
    told = []
    since = datetime.now(UTC) - BROKEN_FOR
    latest = [run for run in client.latest_flow_runs(FLOW_NAME) if run.state_type in BROKEN]
    broken = [run for run in latest if run.state_at is not None and run.state_at > since]
    for run in [run for run in active if run.state_type in _BEGUN] + broken:
        record = read_record(project.flow_process(run.id))
        outcome = outcome_of(run)
        if outcome is None or (record is not None and record.is_alive()):
            continue
        if run.state_type in BROKEN and outcome.state_type != "COMPLETED":
            continue
        taken_at = client.taken_at(run.id)
        if taken_at is None or outcome.began_at < taken_at:
            continue
        client.mark_ended(run, outcome.state_type, outcome.state_name, outcome.message)
        told.append(f"run {run.name!r} is {outcome.state_name.lower()}, as its record says")
        active[:] = [other for other in active if other.id != run.id]
    return told


def _drop_records(project: Project) -> None:
    """Remove what killed processes left whose runs have ended: the runner told the server."""
    for path in project.flow_processes():
        seen = _look(path)
        if seen.record is None or not seen.record.is_alive():
            _drop(path, seen)


def _is_lost(project: Project, client: ApiClient, run: FlowRun, *, has_runner: bool) -> bool:
    path = project.flow_process(run.id)
    seen = _look(path)
    if seen.record is not None:
        if seen.record.is_alive():
            return False
        taken_at = client.taken_at(run.id)
        if not _drop(path, seen):  # it ended by itself meanwhile, or the next try has begun
            return False
        if taken_at is None or seen.written_at is None or seen.written_at >= taken_at:
            return True
    return not run.work_pool and not has_runner


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file of a process as it was found; None where there is none."""

    record: ProcessRecord | None
    written_at: datetime | None


def _look(path: Path) -> _Seen:
    try:
        written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return _Seen(None, None)
    return _Seen(read_record(path), written_at)


def _drop(path: Path, seen: _Seen) -> bool:
    """Remove a record; False when it is gone or another has taken its place."""
    is_there = seen.written_at is not None and _look(path) == seen
    if is_there:
        path.unlink(missing_ok=True)
    return is_there


def _close(client: ApiClient, run: FlowRun) -> str:
    if run.state_type == "CANCELLING":
        client.mark_cancelled(run.id, "its process is gone")
        return f"run {run.name!r} is cancelled: its process is gone"
    client.mark_crashed(run.id, "its process is gone: killed, or the machine went down")
    return f"run {run.name!r} crashed: its process is gone; run it again to go on"
