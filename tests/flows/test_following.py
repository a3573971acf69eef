import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import flows.following
from flows.api import ApiClient, FlowRun
from flows.deployment_names import RUNS_AT_A_TIME
from flows.following import Follower, is_held, run_lock, worker_of
from flows.processes import ProcessRecord, birth_of
from flows.progress import RunProgress
from flows.project import Project
from flows.view import PlainView
from grpo_core.config import load_config
from grpo_core.errors import ServiceError
from grpo_core.stages import RunSession
from grpo_core.store.locks import hold
from grpo_core.store.progress import ProgressLog

CREATED = FlowRun("7", "demo full", "SCHEDULED", "", {})


class FakeServer(ApiClient):
    """Answers from a script of states; an exception in it is a silent server."""

    def __init__(self, *states: str | Exception) -> None:
        super().__init__("")
        self.states = list(states)
        self.calls: list[str] = []
        self.pool = ""
        self.active = [CREATED]
        self.before_answer: Callable[[], None] = lambda: None
        self.refuses: BaseException | None = None

    def read_flow_run(self, flow_run_id: str) -> FlowRun:
        self.before_answer()
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return replace(CREATED, state_type=state, work_pool=self.pool)

    def active_flow_runs(self, flow: str) -> list[FlowRun]:
        return self.active

    def cancel(self, flow_run_id: str) -> None:
        self.calls.append("cancel")
        if self.refuses is not None:
            raise self.refuses

    def has_worker(self, pool: str) -> bool:
        return False

    def mark_crashed(self, flow_run_id: str, message: str) -> None:
        self.calls.append("crashed")
        if self.refuses is not None:
            raise self.refuses

    def mark_running(self, flow_run_id: str, message: str) -> None:
        self.calls.append("running")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ_SECONDS", "ASK_SECONDS", "PICKUP_SECONDS", "GONE_SECONDS", "WORKER_SECONDS"):
        monkeypatch.setattr(flows.following, name, 0.02)
    monkeypatch.setattr(flows.following, "SILENT_SERVER_SECONDS", 0.1)


def make_follower(tmp_path: Path, server: FakeServer, *, has_runner: bool) -> Follower:
    project = Project(tmp_path)
    project.prepare()
    if has_runner:
        birth = birth_of(os.getpid())
        assert birth is not None
        ProcessRecord(os.getpid(), birth, "", "").write(project.record("runner"))
    run = tmp_path / "lake" / "runs" / "demo"
    run.mkdir(parents=True)
    with Path(os.devnull).open("w") as sink:
        view = PlainView(Console(file=sink))
    view.say = lambda line: None  # type: ignore[method-assign]
    return Follower(project, server, CREATED, run / "progress.jsonl", 0, RunProgress("7"), view)


def start(follower: Follower) -> ProgressLog:
    log = ProgressLog(follower.path)
    log.emit("run_started", run="demo", attempt=1, flow_run="7", stages=["ingest"])
    return log


@pytest.mark.usefixtures("quick")
def test_a_run_that_completes(tmp_path: Path) -> None:
    follower = make_follower(
        tmp_path, FakeServer("PENDING", "RUNNING", "COMPLETED"), has_runner=True
    )
    start(follower)
    assert follower.follow().state_type == "COMPLETED"
    assert follower.progress.has_started


@pytest.mark.usefixtures("quick")
def test_a_server_that_does_not_say_who_works_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.following, "SILENT_SERVER_SECONDS", 60.0)
    server = FakeServer(*["SCHEDULED"] * 9, "COMPLETED")
    server.pool = "grpo"
    asked: list[str] = []

    def has_worker(pool: str) -> bool:
        asked.append(pool)
        raise ServiceError("timed out")

    monkeypatch.setattr(server, "has_worker", has_worker)
    follower = make_follower(tmp_path, server, has_runner=False)
    assert follower.follow().state_type == "COMPLETED"
    assert len(asked) > 1
    assert server.calls == []


@pytest.mark.usefixtures("quick")
def test_a_server_that_never_says_who_works_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer("SCHEDULED")
    server.pool = "grpo"

    def has_worker(pool: str) -> bool:
        raise ServiceError("the server answers 500")

    monkeypatch.setattr(server, "has_worker", has_worker)
    follower = make_follower(tmp_path, server, has_runner=False)
    with pytest.raises(ServiceError, match="the server answers 500"):
        follower.follow()


@pytest.mark.usefixtures("quick")
def test_a_worker_that_comes_while_a_run_waits_is_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(*["SCHEDULED"] * 6, "PENDING", "COMPLETED")
    server.pool = "grpo"
    answers = [False, False, False, True]
    monkeypatch.setattr(
        server, "has_worker", lambda pool: answers.pop(0) if len(answers) > 1 else answers[0]
    )
    monkeypatch.setattr(flows.following, "WORKER_SECONDS", 60.0)
    monkeypatch.setattr(flows.following, "PICKUP_SECONDS", 60.0)
    follower = make_follower(tmp_path, server, has_runner=False)
    assert follower.follow().state_type == "COMPLETED"
    assert (answers, server.calls) == ([True], [])


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("has_runner", [True, False])
def test_a_run_that_nobody_takes_is_cancelled_and_reported(
    tmp_path: Path, has_runner: bool
) -> None:
    server = FakeServer("SCHEDULED")
    follower = make_follower(tmp_path, server, has_runner=has_runner)
    with pytest.raises(ServiceError, match=r"the runner (did not take it|is not alive)"):
        follower.follow()
    assert server.calls == ["cancel"]


@pytest.mark.usefixtures("quick")
def test_a_run_that_is_not_among_the_first_four_waits_and_says_so(tmp_path: Path) -> None:
    server = FakeServer(*["SCHEDULED"] * 10, "RUNNING", "COMPLETED")
    server.active = [replace(CREATED, state_type="RUNNING")] * RUNS_AT_A_TIME + [CREATED]
    follower = make_follower(tmp_path, server, has_runner=True)
    said: list[str] = []
    follower.view.say = said.append  # type: ignore[method-assign]
    assert follower.follow().state_type == "COMPLETED"
    assert "waiting: 4 runs are in progress, this one is next" in said
    assert server.calls == []


@pytest.mark.usefixtures("quick")
def test_a_run_on_a_pool_without_workers_says_what_to_type(tmp_path: Path) -> None:
    server = FakeServer("SCHEDULED")
    server.pool = "grpo"
    follower = make_follower(tmp_path, server, has_runner=True)
    with pytest.raises(ServiceError, match="a worker of pool 'grpo' is not alive") as failure:
        follower.follow()
    assert failure.value.hint == "prefect worker start --pool grpo"
    assert server.calls == ["cancel"]


@pytest.mark.usefixtures("quick")
def test_a_run_of_a_worker_is_left_to_its_heartbeats(tmp_path: Path) -> None:
    server = FakeServer(*["RUNNING"] * 5, "COMPLETED")
    server.pool = "grpo"
    follower = make_follower(tmp_path, server, has_runner=False)
    start(follower)
    assert follower.follow().state_type == "COMPLETED"
    assert server.calls == []


@pytest.mark.usefixtures("quick")
def test_runner_and_flow_gone_make_a_crash(tmp_path: Path) -> None:
    server = FakeServer("RUNNING")
    follower = make_follower(tmp_path, server, has_runner=False)
    log = start(follower)
    log.emit("stage_started", stage="ingest", label="prompts")
    ended = follower.follow()
    assert (ended.state_type, server.calls) == ("CRASHED", ["crashed"])
    assert follower.progress.nodes["prompts"].state == "Unfinished"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("holder", "calls"), [("7", ["running"]), ("8", [])])
def test_a_run_that_counts_as_crashed_is_believed_to_work_while_it_holds_its_lock(
    tmp_path: Path, holder: str, calls: list[str]
) -> None:
    server = FakeServer("RUNNING", "CRASHED", "COMPLETED")
    follower = make_follower(tmp_path, server, has_runner=True)
    start(follower)
    with hold(run_lock(follower.path.parent), f"run 'demo', flow run {holder} on here"):
        ended = follower.follow()
    assert ended.state_type == ("COMPLETED" if calls else "CRASHED")
    assert server.calls == calls


def test_who_holds_the_lock_is_known_by_the_text_that_a_session_writes(tmp_path: Path) -> None:
    lock = tmp_path / "locks" / "run-demo.lock"
    assert worker_of(lock) == ""
    config = load_config("tiny")
    with RunSession.open(config, root=tmp_path, run="demo", flow_run="7"):
        assert worker_of(lock) == "7"
    assert worker_of(lock) == ""
    with RunSession.open(config, root=tmp_path, run="demo"):
        assert worker_of(lock) == ""


@pytest.mark.usefixtures("quick")
def test_a_server_that_dies_leaves_the_runs_own_record(tmp_path: Path) -> None:
    follower = make_follower(
        tmp_path, FakeServer("RUNNING", ServiceError("silent")), has_runner=True
    )
    log = start(follower)
    log.emit("run_finished", run="demo", attempt=1, state="Failed", error="no prompts\nhint: x")
    ended = follower.follow()
    assert (ended.state_type, ended.message) == ("FAILED", "no prompts\nhint: x")


@pytest.mark.usefixtures("quick")
def test_a_server_that_dies_with_the_run(tmp_path: Path) -> None:
    server = FakeServer("RUNNING", ServiceError("silent"))
    follower = make_follower(tmp_path, server, has_runner=True)
    start(follower)
    with pytest.raises(ServiceError, match="nobody works on run demo"):
        follower.follow()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("outcome", "state"), [("Failed", "FAILED"), ("", "CRASHED")])
def test_a_crash_that_the_server_can_not_be_told_ends_by_the_runs_own_record(
    tmp_path: Path, outcome: str, state: str
) -> None:
    server = FakeServer("RUNNING")
    server.refuses = ServiceError("answers 404")
    follower = make_follower(tmp_path, server, has_runner=False)
    said: list[str] = []
    follower.view.say = said.append  # type: ignore[method-assign]
    log = start(follower)
    if outcome:
        log.emit("run_finished", run="demo", attempt=1, state=outcome, error="loss nan")
    assert follower.follow().state_type == state
    assert said == [f"{flows.following.UNTOLD}: answers 404"]


def test_a_lock_is_held_by_a_living_process_only(tmp_path: Path) -> None:
    lock = run_lock(tmp_path / "lake" / "runs" / "demo")
    assert not is_held(lock)
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert not is_held(lock)
    code = (
        "import fcntl, sys, time\n"
        f"stream = open({str(lock)!r}, 'r+')\n"
        "fcntl.flock(stream, fcntl.LOCK_EX)\nprint('held', flush=True)\ntime.sleep(60)"
    )
    process: subprocess.Popen[Any] = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert is_held(lock)
    process.kill()
    process.wait()
    process.stdout.close()
    assert not is_held(lock)


@pytest.mark.usefixtures("quick")
def test_a_run_whose_end_the_server_can_not_record_ends_by_its_own_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.following, "UNRECORDED_SECONDS", 0.1)
    follower = make_follower(tmp_path, FakeServer("RUNNING"), has_runner=True)
    said: list[str] = []
    follower.view.say = said.append  # type: ignore[method-assign]
    log = start(follower)
    log.emit("run_finished", run="demo", attempt=1, state="Failed", error="loss nan")
    ended = follower.follow()
    assert (ended.state_type, ended.message) == ("FAILED", "loss nan")
    assert said == ["the server has not recorded how the run ended; `grpo up` tells it"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("state", ["CRASHED", "FAILED"])
def test_a_run_that_completed_and_could_not_say_so_has_completed(
    tmp_path: Path, state: str
) -> None:
    follower = make_follower(tmp_path, FakeServer("RUNNING", state), has_runner=True)
    log = start(follower)
    log.emit("run_finished", run="demo", attempt=1, state="Completed", error="")
    assert follower.follow().state_type == "COMPLETED"
