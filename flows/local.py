"""The local Prefect: one server and one runner per project, started, checked and stopped as a pair.

The server keeps what is known of runs; the runner executes them. Both outlive the command that
starts them, so that `prefect deployment run grpo/full` works as typed afterwards. All of it is
safe to call twice at once: a lock lets one caller through, the next finds things running.
"""

import fcntl
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from flows.api import ApiClient, FlowRun
from flows.automations import crash_automation, ensure_automation
from flows.deployment_names import FLOW_NAME
from flows.processes import ProcessRecord, descendants, read_record, stop_tree
from flows.project import Project
from flows.reconcile import counted_as_crashed, reconcile
from flows.server import (
    FIRST_PORT,
    STOP_SECONDS,
    call,
    client_of,
    find_server,
    log_tail,
    record_process,
    server_build,
    server_port,
    spawn,
    start_server,
    wait_healthy,
)
from grpo_core.errors import ServiceError

REGISTER_SECONDS = 120.0
BUSY_SECONDS = 60.0
"""How long `grpo up` bears with a server that is slow on a busy machine, or just coming back."""
RUNNER_STOP_SECONDS = 45.0
"""A cancelled flow has 30 s to end before Prefect kills it."""
_POLL_SECONDS = 0.5
_CANCEL_TRIES = 3
"""A busy server may leave a question unanswered; one that is gone refuses all at once."""

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Status:
    """What is alive now.

    Args:
        server: The server's process, if it lives.
        runner: The runner's process, if it lives.
        is_healthy: Whether the server answers.
        deployments: Names of the registered deployments.
        active: Flow runs that have not ended, as "name (state)".
    """

    server: ProcessRecord | None
    runner: ProcessRecord | None
    is_healthy: bool
    deployments: tuple[str, ...]
    active: tuple[str, ...]


def ensure_up(project: Project, notify: Notify) -> ApiClient:
    """Make sure that the server answers and the runner polls; returns a client of the server.

    Raises:
        DiskFullError: What they write of runs would find no room.
        ServiceError: One of them could not be started.
    """
    project.prepare()
    project.check_room()
    with _lock(project, notify):
        server = _ensure_server(project, notify)
        project.write_profile(server.address)
        client = client_of(project, server)
        patient = client.patient(BUSY_SECONDS)
        ensure_automation(patient, crash_automation())
        for line in reconcile(project, patient, has_runner=find_runner(project) is not None):
            notify(line)
        _ensure_runner(project, server, patient, notify)
    return client


def down(project: Project, notify: Notify) -> None:
    """Stop the runner, which cancels its runs resumably, then the server."""
    if not project.state.exists():
        notify("nothing is running here")
        return
    with _lock(project, notify):
        _cancel_runs(project, notify)
        stopped = [_stop(project, "runner", RUNNER_STOP_SECONDS, notify)]
        stopped += [_stop(project, "server", STOP_SECONDS, notify)]
        if project.home.exists():
            _forget_address(project, notify)
    if not any(stopped):
        notify("nothing is running here")


def _forget_address(project: Project, notify: Notify) -> None:
    try:
        project.write_profile(None)
    except OSError as error:  # a full disk keeps nobody from stopping what runs
        notify(f"`prefect` typed here still asks the server that was stopped: {error}")


def status(project: Project) -> Status:
    """Look, change nothing."""
    server, runner = find_server(project), find_runner(project)
    if server is None or not (client := client_of(project, server)).is_healthy():
        return Status(server, runner, False, (), ())
    known = client.active_flow_runs(FLOW_NAME)
    active = [f"{run.name} ({run.state_type.lower()})" for run in known]
    active += [
        f"{run.name} (works, but counts as crashed: grpo up puts that right)"
        for run in counted_as_crashed(project, client, known)
    ]
    pools = client.pools(FLOW_NAME)
    names = tuple(
        f"{FLOW_NAME}/{name}" + (f" (pool {pools[name]})" if name in pools else "")
        for name in client.deployment_names(FLOW_NAME)
    )
    return Status(server, runner, True, names, tuple(active))


def find_runner(project: Project) -> ProcessRecord | None:
    """Our runner if its process lives."""
    record = read_record(project.record("runner"))
    return record if record is not None and record.is_alive() else None


def build_of_code(pools: Mapping[str, str]) -> str:
    """Digest of what a registration depends on: Prefect, flows, presets, and what pools execute."""
    package = Path(__file__).parent
    digest = hashlib.sha256(f"{version('prefect')} {sorted(pools.items())}".encode())
    for path in sorted(package.glob("*.py")):
        digest.update(path.read_bytes())
    for path in sorted((package / "presets").glob("*.toml")):
        digest.update(path.name.encode())
    return digest.hexdigest()[:16]


def _ensure_server(project: Project, notify: Notify) -> ProcessRecord:
    server = find_server(project)
    if server is not None and server.build != server_build(project):
        notify("restarting the Prefect server: its release, code or settings have changed")
        _cancel_runs(project, notify)
        _stop(project, "runner", RUNNER_STOP_SECONDS, notify)
        _stop(project, "server", STOP_SECONDS, notify)
        server = None
    if server is not None:
        wait_healthy(project, server)
        return server
    notify("starting the local Prefect server (first time: about half a minute)")
    started = time.monotonic()
    server = start_server(project)
    notify(f"server answers at {server.address} after {time.monotonic() - started:.0f} s")
    port, wanted = server_port(server), project.server_settings().port or FIRST_PORT
    if port != wanted:
        notify(f"port {wanted} is taken, so it is {port}; elsewhere than in {project.root} type:")
        notify(f"export PREFECT_API_URL={server.address}")
    return server


def _ensure_runner(
    project: Project, server: ProcessRecord, client: ApiClient, notify: Notify
) -> None:
    pools = client.pools(FLOW_NAME)
    runner, build = find_runner(project), build_of_code(pools)
    if runner is not None and (runner.address, runner.build) == (server.address, build):
        return
    at_server = runner is not None and runner.address == server.address
    if runner is not None and at_server and _is_busy(project, runner, client):
        _register_beside(project, runner, build, notify)
        return
    if runner is not None:
        notify("restarting the runner: the code or the work pools have changed")
        _stop(project, "runner", RUNNER_STOP_SECONDS, notify)
    notify("starting the runner")
    _start_runner(project, server, build)


def _start_runner(project: Project, server: ProcessRecord, build: str) -> None:
    ready = project.state / "runner.ready"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "flows.deployments", "--ready-file", str(ready)]
    process = spawn(project, command, "runner", server.address)
    record = record_process(project, "runner", process, server.address, build)
    deadline = time.monotonic() + REGISTER_SECONDS
    while not ready.exists():
        if not record.is_alive() or time.monotonic() >= deadline:
            stop_tree(record, 1.0, spared=server)
            raise ServiceError(
                f"the runner could not register its deployments:\n{log_tail(project, 'runner')}",
                hint=f"the whole log is {project.log('runner')}",
            )
        time.sleep(0.1)


def _register_beside(project: Project, runner: ProcessRecord, build: str, notify: Notify) -> None:
    """Register anew once, and keep in mind that the runner is to be restarted when it is idle."""
    noted = f"{runner.build.partition('+')[0]}+{build}"
    if runner.build == noted:
        return
    notify(
        "the code or the work pools have changed; the busy runner stays until its runs have ended, "
        "the deployments are registered anew"
    )
    command = [sys.executable, "-m", "flows.deployments", "--register-only"]
    call(project, command, runner.address, "the deployments could not be registered")
    ProcessRecord(runner.pid, runner.birth, runner.address, noted).write(project.record("runner"))


def _is_busy(project: Project, runner: ProcessRecord, client: ApiClient) -> bool:
    """Whether the local runner executes; a run of its own may belong to a pool by now."""
    active = client.active_flow_runs(FLOW_NAME)
    if any(run.state_type != "SCHEDULED" and not run.work_pool for run in active):
        return True
    below = {process.pid for process in descendants(runner.pid)}
    records = (read_record(path) for path in project.flow_processes())
    return any(record is not None and record.pid in below for record in records)


def _cancel_runs(project: Project, notify: Notify) -> None:
    """Cancel what the runner executes; told to end, it would wait for that as long as it lasts."""
    server = find_server(project)
    if server is None or find_runner(project) is None:
        return
    client, deadline = client_of(project, server), time.monotonic() + RUNNER_STOP_SECONDS
    taken: list[FlowRun] | None = None
    failures = 0
    while True:
        try:
            if taken is None:
                taken = _cancelled(client)
            seen = [client.read_flow_run(run.id) for run in taken]
        except ServiceError as error:
            failures += 1
            if failures == _CANCEL_TRIES:
                _say_killed(project, error, notify)
                return
        else:
            for run in seen:
                if run.is_final:
                    notify(f"run {run.name!r} is {run.state_type.lower()}")
            taken = [run for run in seen if not run.is_final]
            if not taken or time.monotonic() >= deadline:
                return
        time.sleep(_POLL_SECONDS)


def _cancelled(client: ApiClient) -> list[FlowRun]:
    """The runs that the local runner executes, each of them asked to end."""
    found = client.active_flow_runs(FLOW_NAME)
    taken = [run for run in found if run.state_type != "SCHEDULED" and not run.work_pool]
    for run in taken:
        client.cancel(run.id)
    return taken


def _say_killed(project: Project, error: ServiceError, notify: Notify) -> None:
    records = (read_record(path) for path in project.flow_processes())
    if any(record is not None and record.is_alive() for record in records):
        notify(f"runs in progress are killed and not cancelled: {error.message}")


def _stop(project: Project, name: str, grace_seconds: float, notify: Notify) -> bool:
    record = read_record(project.record(name))
    alive = record is not None and record.is_alive()
    if record is not None and alive:
        notify(f"stopping the {name}")
        # A server that died was started again by the runner, and so is its child.
        server = read_record(project.record("server")) if name == "runner" else None
        if not stop_tree(record, grace_seconds, spared=server):
            notify(f"the {name} did not end in {grace_seconds:.0f} s and was killed")
    project.record(name).unlink(missing_ok=True)
    return alive


@contextmanager
def _lock(project: Project, notify: Notify) -> Iterator[None]:
    with (project.state / "up.lock").open("w", encoding="ascii") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify("waiting for another `grpo up` or `grpo down` in this project")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
