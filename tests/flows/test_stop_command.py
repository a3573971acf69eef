"""`grpo stop` without a server that executes: whom it asks, and what it says to nobody."""

import fcntl
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flows import stopping
from flows.api import ApiClient, FlowRun
from flows.following import run_lock
from flows.processes import ProcessRecord
from flows.project import Project
from grpo_core import paths
from grpo_core.errors import DataContractError, ServiceError
from grpo_core.stages.records import RunRecords
from grpo_core.stages.stopping import asked_to_stop, request_stop
from grpo_core.store.progress import ProgressLog


class FakeServer(ApiClient):
    def __init__(self, *runs: FlowRun) -> None:
        super().__init__("")
        self.runs, self.cancelled = runs, []  # type: ignore[var-annotated]

    def active_flow_runs(self, flow: str) -> list[FlowRun]:
        return list(self.runs)

    def latest_flow_runs(self, flow: str, *, timeout: float = 15.0) -> list[FlowRun]:
        return []

    def read_flow_run(self, flow_run_id: str) -> FlowRun:
        return next(run for run in self.runs if run.id == flow_run_id)

    def mark_running(self, flow_run_id: str, message: str) -> None:
        self.cancelled.append(f"{flow_run_id} works")

    def cancel(self, flow_run_id: str) -> None:
        self.cancelled.append(flow_run_id)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "PROJECT_ROOT", tmp_path)
    path = tmp_path / "lake" / "runs" / "demo"
    path.mkdir(parents=True)
    return path


def _use(monkeypatch: pytest.MonkeyPatch, server: FakeServer | None) -> None:
    record = ProcessRecord(1, "", "", "") if server else None
    monkeypatch.setattr(stopping, "find_server", lambda project: record)
    monkeypatch.setattr(stopping, "client_of", lambda project, found: server)


@contextmanager
def _worked_on(directory: Path) -> Iterator[RunRecords]:
    """An attempt whose lock is held until somebody asks it to stop."""
    records = RunRecords(directory)
    records.begin({"flow_run": "7"}, set())
    (directory / "progress.jsonl").touch()
    lock = run_lock(directory)
    lock.parent.mkdir(parents=True)
    stream = lock.open("w")
    fcntl.flock(stream, fcntl.LOCK_EX)

    def end_when_asked() -> None:
        deadline = time.monotonic() + 20
        while asked_to_stop(directory) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        records.finish("Stopped", "after a unit")
        stream.close()

    thread = threading.Thread(target=end_when_asked)
    thread.start()
    yield records
    thread.join()


def test_whoever_works_is_asked_and_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, None)
    with _worked_on(directory):
        assert stopping.stop(Project(directory), directory, now=False) == 0
    assert "@" in (asked_to_stop(directory) or "")


@pytest.mark.parametrize("now", [False, True])
def test_a_server_that_refuses_keeps_nobody_from_asking_the_run(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], now: bool
) -> None:
    server = FakeServer()
    _use(monkeypatch, server)

    def refuse(flow: str) -> list[FlowRun]:
        raise ServiceError("the Prefect server answers 500")

    monkeypatch.setattr(server, "active_flow_runs", refuse)
    with _worked_on(directory):
        if now:
            with pytest.raises(ServiceError, match="answers 500"):
                stopping.stop(Project(directory), directory, now=True)
            request_stop(directory, "the test")
        else:
            assert stopping.stop(Project(directory), directory, now=False) == 0
    assert asked_to_stop(directory)
    said = capsys.readouterr().err
    assert ("going on without the server: the Prefect server answers 500" in said) is not now


def test_a_run_that_waits_is_cancelled_by_its_name(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(
        FlowRun("1", "a", "SCHEDULED", "", {"run": "demo"}),
        FlowRun("2", "b", "SCHEDULED", "", {"run": "other"}),
        FlowRun("3", "c", "SCHEDULED", "", {"preset": "demo"}),
    )
    _use(monkeypatch, server)
    assert stopping.stop(Project(directory), directory, now=False) == 0
    assert server.cancelled == ["1", "3"]


@pytest.mark.parametrize("state", ["SCHEDULED", "PENDING", "RUNNING"])
@pytest.mark.parametrize("now", [False, True])
def test_a_run_of_the_same_name_in_another_lake_is_left_alone(
    directory: Path, monkeypatch: pytest.MonkeyPatch, state: str, now: bool
) -> None:
    other = f"execution.lake={directory.parents[2] / 'other'}"
    server = FakeServer(FlowRun("1", "a", state, "", {"run": "demo", "overrides": [other]}))
    _use(monkeypatch, server)
    with pytest.raises(DataContractError, match="nobody works on run 'demo'"):
        stopping.stop(Project(directory), directory, now=now)
    assert server.cancelled == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"overrides": ["execution.lake={lake}"]},
        {"config_file": "away.toml", "overrides": ["execution.lake={lake}"]},
        {"config_file": "away.toml"},
    ],
    ids=["named", "named beside a file that is away", "unknown"],
)
def test_a_run_of_this_lake_or_of_an_unknown_one_is_cancelled(
    directory: Path, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    lake = directory.parents[1]
    named = [text.format(lake=lake) for text in parameters.get("overrides", ())]
    given = {"run": "demo"} | parameters | {"overrides": named}
    server = FakeServer(FlowRun("1", "a", "SCHEDULED", "", given))
    _use(monkeypatch, server)
    assert stopping.stop(Project(directory), directory, now=False) == 0
    assert server.cancelled == ["1"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_run_that_is_being_picked_up_is_waited_for_and_asked(
    directory: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    server = FakeServer(FlowRun("7", "demo full", state, "", {"run": "demo"}))
    _use(monkeypatch, server)
    begun = ExitStack()

    def begin(flow_run_id: str) -> FlowRun:  # seen starting once, then it works
        begun.enter_context(_worked_on(directory))
        return server.runs[0]

    monkeypatch.setattr(server, "read_flow_run", begin)
    with begun:
        assert stopping.stop(Project(directory), directory, now=False) == 0
    assert "@" in (asked_to_stop(directory) or "")
    assert server.cancelled == []


def test_a_server_that_fails_while_a_run_is_picked_up_keeps_nobody_from_asking_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeServer(FlowRun("7", "demo full", "PENDING", "", {"run": "demo"}))
    _use(monkeypatch, server)
    begun, asked = ExitStack(), []

    def fail(flow_run_id: str) -> FlowRun:
        asked.append(flow_run_id)
        if len(asked) == 2:
            begun.enter_context(_worked_on(directory))
        raise ServiceError("the Prefect server answers 500")

    monkeypatch.setattr(server, "read_flow_run", fail)
    with begun:
        assert stopping.stop(Project(directory), directory, now=False) == 0
    assert asked_to_stop(directory)
    said = capsys.readouterr().err
    assert said.count("going on without the server: the Prefect server answers 500") == 1


def test_how_a_run_ended_is_told_by_its_record_where_the_server_fails(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeServer(FlowRun("8", "demo full", "RUNNING", "", {"run": "demo"}))
    _use(monkeypatch, server)

    def fail(flow_run_id: str) -> FlowRun:
        raise ServiceError("the Prefect server answers 500")

    monkeypatch.setattr(server, "read_flow_run", fail)
    with _worked_on(directory):
        assert stopping.stop(Project(directory), directory, now=False) == 0
    assert "going on without the server: the Prefect server answers 500" in capsys.readouterr().err


def test_a_run_that_is_being_picked_up_can_be_cancelled(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(FlowRun("7", "demo full", "PENDING", "", {"run": "demo"}))
    _use(monkeypatch, server)
    assert stopping.stop(Project(directory), directory, now=True) == 0
    assert server.cancelled == ["7"]


def test_a_run_that_ends_before_it_works_leaves_nobody_to_stop(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(FlowRun("7", "demo full", "RUNNING", "", {"run": "demo"}))
    _use(monkeypatch, server)
    failed = FlowRun("7", "demo full", "FAILED", "", {"run": "demo"})
    monkeypatch.setattr(server, "read_flow_run", lambda flow_run_id: failed)
    with pytest.raises(DataContractError, match="nobody works on run 'demo'"):
        stopping.stop(Project(directory), directory, now=False)


def test_nobody_to_stop_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, FakeServer())
    with pytest.raises(DataContractError, match="nobody works on run 'demo'"):
        stopping.stop(Project(directory), directory, now=False)


@contextmanager
def _starting(directory: Path, flow_run: str) -> Iterator[ExitStack]:
    """An attempt that holds the lock and has left no record yet; closing the stack ends it."""
    lock = run_lock(directory)
    lock.parent.mkdir(parents=True)
    with ExitStack() as stack:
        stream = stack.enter_context(lock.open("w"))
        fcntl.flock(stream, fcntl.LOCK_EX)
        holder = f"run 'demo', flow run {flow_run} on here"
        stream.write(json.dumps({"holder": holder, "pid": 1, "since": "now"}))
        stream.flush()
        yield stack


@pytest.mark.parametrize("has_earlier", [False, True])
@pytest.mark.parametrize(("ended", "code"), [("CANCELLED", 0), ("FAILED", 1)])
def test_an_attempt_that_has_not_begun_is_the_one_that_is_cancelled(
    directory: Path, monkeypatch: pytest.MonkeyPatch, has_earlier: bool, ended: str, code: int
) -> None:
    if has_earlier:
        records = RunRecords(directory)
        records.begin({"flow_run": "6"}, set())
        records.finish("Completed", "")
        log = ProgressLog(directory / "progress.jsonl")
        log.emit("run_started", run="demo", attempt=1, flow_run="6", stages=["ingest"])
        log.emit("run_finished", run="demo", attempt=1, state="Completed", error="")
    server = FakeServer(FlowRun("7", "demo full", "RUNNING", "", {"run": "demo"}))
    _use(monkeypatch, server)
    monkeypatch.setattr(server, "latest_flow_runs", lambda flow, timeout: list(server.runs))
    with _starting(directory, "7") as attempt:

        def cancel(flow_run_id: str) -> None:
            server.cancelled.append(flow_run_id)
            server.runs = (FlowRun("7", "demo full", ended, "", {"run": "demo"}),)
            attempt.close()

        monkeypatch.setattr(server, "cancel", cancel)
        assert stopping.stop(Project(directory), directory, now=True) == code
    assert server.cancelled == ["7"]


def test_a_run_that_counts_as_crashed_but_works_is_cancelled(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(FlowRun("7", "demo full", "CRASHED", "", {"run": "demo"}))
    _use(monkeypatch, server)
    monkeypatch.setattr(server, "active_flow_runs", lambda flow: [])
    with _starting(directory, "7") as attempt:
        monkeypatch.setattr(stopping, "_wait_for_progress", lambda directory: attempt.close())
        monkeypatch.setattr(server, "latest_flow_runs", lambda flow, timeout: list(server.runs))
        stopping.stop(Project(directory), directory, now=True)
    assert server.cancelled == ["7 works", "7"]


def test_now_needs_the_server_that_knows_the_run(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, None)
    with _worked_on(directory):
        with pytest.raises(ServiceError, match="not known to a server"):
            stopping.stop(Project(directory), directory, now=True)
        request_stop(directory, "the test")
