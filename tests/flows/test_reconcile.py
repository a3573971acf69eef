"""After a crash the server's picture is brought in line with the processes that live."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows.api import ApiClient, FlowRun
from flows.automations import crash_automation, ensure_automation
from flows.processes import ProcessRecord, birth_of
from flows.project import Project
from flows.reconcile import reconcile
from flows.request import make_request
from flows.scheduling import schedule_after
from grpo_core.errors import ConfigError, ServiceError

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


class FakeServer(ApiClient):
    """Holds runs and automations; notes what is changed."""

    def __init__(self, *runs: FlowRun) -> None:
        super().__init__("")
        self.runs, self.changes = runs, {}  # type: ignore[var-annotated]
        self.ended: list[FlowRun] = []
        self.saved: dict[str, dict[str, object]] = {}
        self.taken: dict[str, datetime] = {}

    def taken_at(self, flow_run_id: str) -> datetime | None:
        return self.taken.get(flow_run_id, NOW - 3 * HOUR)

    def active_flow_runs(self, flow: str) -> list[FlowRun]:
        return list(self.runs)

    def latest_flow_runs(self, flow: str, *, timeout: float = 0) -> list[FlowRun]:
        return [*self.runs, *self.ended]

    def mark_ended(self, run: FlowRun, state_type: str, state_name: str, message: str) -> None:
        self.changes[run.id] = f"{state_type} {state_name}: {message}"

    def find_flow_run(self, flow_run_id: str) -> FlowRun | None:
        return next((run for run in self.ended if run.id == flow_run_id), None)

    def mark_running(self, flow_run_id: str, message: str) -> None:
        self.changes[flow_run_id] = "running"

    def mark_crashed(self, flow_run_id: str, message: str) -> None:
        self.changes[flow_run_id] = "crashed"

    def mark_cancelled(self, flow_run_id: str, message: str) -> None:
        self.changes[flow_run_id] = "cancelled"

    def automations(self) -> dict[str, dict[str, object]]:
        return self.saved

    def save_automation(self, body: dict[str, object], automation_id: str | None = None) -> None:
        self.saved[str(body["name"])] = body | {"id": automation_id or "new"}


def _run(name: str, state: str, pool: str = "") -> FlowRun:
    return FlowRun(name, name, state, "", {}, work_pool=pool)


def _record(project: Project, run: str, birth: str) -> Path:
    path = project.flow_process(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    ProcessRecord(os.getpid(), birth, "", "").write(path)
    return path


@pytest.mark.parametrize("has_runner", [True, False])
def test_only_runs_without_a_process_are_closed(tmp_path: Path, has_runner: bool) -> None:
    project = Project(tmp_path)
    alive = _record(project, "alive", birth_of(os.getpid()) or "")
    _record(project, "rebooted", "another boot:1")
    _record(project, "killed and closed by the runner", "another boot:3")
    _record(project, "halting", "another boot:2")
    server = FakeServer(
        _run("alive", "RUNNING"),
        _run("rebooted", "RUNNING"),
        _run("halting", "CANCELLING"),
        _run("starting", "PENDING"),
        _run("waiting", "SCHEDULED"),
        _run("elsewhere", "RUNNING", pool="grpo"),
    )
    told = reconcile(project, server, has_runner=has_runner)
    lost = {} if has_runner else {"starting": "crashed"}
    assert server.changes == {"rebooted": "crashed", "halting": "cancelled"} | lost
    assert len(told) == len(server.changes)
    assert project.flow_processes() == [alive]


def test_a_living_run_that_counts_as_crashed_runs_again(tmp_path: Path) -> None:
    project, birth = Project(tmp_path), birth_of(os.getpid()) or ""
    for name in ("slept", "stopped", "of another database"):
        _record(project, name, birth)
    _record(project, "killed", "another boot:1")
    server = FakeServer()
    server.ended = [
        _run("slept", "CRASHED"),
        _run("stopped", "CANCELLED"),
        _run("killed", "CRASHED"),
    ]
    told = reconcile(project, server, has_runner=True)
    assert server.changes == {"slept": "running"}
    assert told == ["run 'slept' was counted as crashed, but its process works"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
@pytest.mark.parametrize("has_runner", [True, False])
def test_the_process_of_an_earlier_try_says_nothing_of_a_run_that_is_tried_again(
    tmp_path: Path, state: str, has_runner: bool
) -> None:
    project = Project(tmp_path)
    path = _record(project, "retried", "another boot:1")
    server = FakeServer(_run("retried", state))
    server.taken["retried"] = datetime.fromtimestamp(path.stat().st_mtime, UTC) + HOUR
    reconcile(project, server, has_runner=has_runner)
    assert server.changes == ({} if has_runner else {"retried": "crashed"})


@pytest.mark.parametrize("is_tried_again", [True, False])
@pytest.mark.parametrize("has_runner", [True, False])
def test_a_record_that_changes_while_the_server_is_asked_says_nothing(
    tmp_path: Path, is_tried_again: bool, has_runner: bool
) -> None:
    project = Project(tmp_path)
    path = _record(project, "quick", "another boot:1")

    class SlowServer(FakeServer):
        def taken_at(self, flow_run_id: str) -> datetime | None:
            path.unlink()
            if is_tried_again:
                _record(project, "quick", birth_of(os.getpid()) or "")
            return super().taken_at(flow_run_id)

    server = SlowServer(_run("quick", "RUNNING"))
    reconcile(project, server, has_runner=has_runner)
    assert server.changes == {}
    assert path.exists() == is_tried_again


def test_a_record_of_the_next_try_outlives_that_of_the_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path)
    path = _record(project, "retried", "another boot:1")
    is_alive = ProcessRecord.is_alive

    def written_meanwhile(record: ProcessRecord) -> bool:
        if record.birth == "another boot:1":
            _record(project, "retried", birth_of(os.getpid()) or "")
        return is_alive(record)

    monkeypatch.setattr(ProcessRecord, "is_alive", written_meanwhile)
    reconcile(project, FakeServer(_run("retried", "SCHEDULED")), has_runner=True)
    assert path.exists()


def test_what_the_server_does_not_say_of_a_process_is_asked_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    path = _record(project, "slept", birth_of(os.getpid()) or "")

    class BusyServer(FakeServer):
        def find_flow_run(self, flow_run_id: str) -> FlowRun | None:
            raise ServiceError("the server answers 503")

    with pytest.raises(ServiceError, match="503"):
        reconcile(project, BusyServer(), has_runner=True)
    assert path.exists()


def _attempt(lake: Path, run: str, state: str, error: str = "") -> None:
    path = lake / "runs" / run / "attempts" / "0001.json"
    path.parent.mkdir(parents=True)
    nodes = [
        {"stage": stage, "label": stage, "kind": stage, "phase": 0, "key": "k", "content": "c"}
        | {"state": "Computed", "seconds": 1.0, "tokens": 0, "finished_at": "2026-01-01"}
        for stage in ("ingest", "prefilter")
    ]
    record = {"attempt": 1, "state": state, "error": error, "nodes": nodes}
    record["request"] = {"flow_run": run}
    record["started_at"] = (NOW - 2 * HOUR).isoformat(timespec="milliseconds")
    path.write_text(json.dumps(record), encoding="utf-8")


def test_what_ended_while_the_server_was_away_is_told_from_its_record(tmp_path: Path) -> None:
    project, lake = Project(tmp_path), tmp_path / "lake"

    def run(name: str, state: str) -> FlowRun:
        given = {"run": name, "force": ["ingest"], "overrides": [f"execution.lake={lake}"]}
        return FlowRun(name, name, state, "", given, state_at=NOW - HOUR)

    for name in ("done", "reported crashed", "reported failed", "crashed long ago"):
        _attempt(lake, name, "Completed")
    _attempt(lake, "broke", "Failed", "loss nan")
    _attempt(lake, "halted", "Stopped", "train/1 after 3 of 6 steps")
    _attempt(lake, "terminated", "Stopped")
    _attempt(lake, "works", "Running")
    _attempt(lake, "another's", "Completed")
    _attempt(lake, "retried", "Failed", "disk full")
    _attempt(lake, "crashed before", "Failed", "loss nan")
    _attempt(lake, "closing", "Completed")
    _record(project, "closing", birth_of(os.getpid()) or "")
    names = ("done", "broke", "halted", "terminated", "works", "no record", "closing", "retried")
    server = FakeServer(*(run(name, "RUNNING") for name in names))
    other = FlowRun("other", "other", "RUNNING", "", run("another's", "RUNNING").parameters)
    server.runs += (other,)
    server.taken["retried"] = NOW  # by Retry in the UI; its own attempt has not begun
    server.ended = [run(name, "CRASHED") for name in ("reported crashed", "crashed before")]
    server.ended.append(run("reported failed", "FAILED"))
    server.ended.append(replace(run("crashed long ago", "CRASHED"), state_at=NOW - 30 * HOUR))
    told = reconcile(project, server, has_runner=True)
    # Without --force: what it named has finished.
    way_on = f"\nto go on: grpo run full --run %s --set execution.lake={lake}"
    completed = "COMPLETED Completed: it completed while the server was away"
    assert server.changes == {
        "done": completed,
        "reported crashed": completed,
        "reported failed": completed,
        "broke": f"FAILED Failed: loss nan{way_on % 'broke'}",
        "halted": f"CANCELLED Stopped: train/1 after 3 of 6 steps{way_on % 'halted'}",
    }
    assert "run 'done' is completed, as its record says" in told


@pytest.mark.parametrize("pool", ["", "grpo"])
@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "CANCELLING", "CRASHED"])
@pytest.mark.parametrize("ended", ["Completed", "Failed"])
def test_an_attempt_of_an_earlier_try_says_nothing_of_a_run_that_is_tried_again(
    tmp_path: Path, pool: str, state: str, ended: str
) -> None:
    lake = tmp_path / "lake"
    _attempt(lake, "retried", ended, "disk full")
    given = {"run": "retried", "overrides": [f"execution.lake={lake}"]}
    run = FlowRun("retried", "retried", state, "", given, work_pool=pool, state_at=NOW)
    server = FakeServer(*[run] if state != "CRASHED" else [])
    server.ended = [run] if state == "CRASHED" else []
    server.taken["retried"] = NOW - HOUR  # the attempt began an hour before
    assert reconcile(Project(tmp_path), server, has_runner=True) == []
    assert server.changes == {}


def test_a_run_that_is_picked_up_is_never_ended_by_a_record(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    _attempt(lake, "early", "Completed")
    given = {"run": "early", "overrides": [f"execution.lake={lake}"]}
    server = FakeServer(FlowRun("early", "early", "PENDING", "", given))
    assert reconcile(Project(tmp_path), server, has_runner=True) == []


def test_an_attempt_that_is_torn_hides_no_earlier_one(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    _attempt(lake, "done", "Completed")
    (lake / "runs" / "done" / "attempts" / "0002.json").write_text('{"attempt": 2', "utf-8")
    given = {"run": "done", "overrides": [f"execution.lake={lake}"]}
    server = FakeServer(FlowRun("done", "done", "RUNNING", "", given))
    reconcile(Project(tmp_path), server, has_runner=True)
    assert server.changes["done"].startswith("COMPLETED")


def test_an_automation_is_made_once_and_replaced_when_ours_changes() -> None:
    server, body = FakeServer(), crash_automation()
    assert ensure_automation(server, body)
    assert not ensure_automation(server, body)
    server.saved[body["name"]]["enabled"] = False  # the user switched it off
    assert not ensure_automation(server, body)
    assert ensure_automation(server, body | {"enabled": False})
    assert server.saved[body["name"]]["id"] == "new"


def test_training_after_itself_is_refused() -> None:
    request = make_request("full", "tiny", None, "demo", None, None)
    with pytest.raises(ConfigError, match="would never end"):
        schedule_after(FakeServer(), request, "demo")
