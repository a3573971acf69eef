"""A server that died comes back where its runner looks for it, or not at all."""

import fcntl
import os
import socket
from itertools import pairwise
from pathlib import Path

import pytest

from flows import server_keeper
from flows.api import ApiClient
from flows.processes import ProcessRecord, birth_of, read_record
from flows.project import Project
from flows.server import start_server
from flows.server_keeper import ServerKeeper
from grpo_core.errors import ServiceError


@pytest.fixture
def died(tmp_path: Path) -> Project:
    """A project whose server is gone; its port is put into the record by the test."""
    project = Project(tmp_path)
    project.prepare()
    return project


def _record(project: Project, port: int) -> ProcessRecord:
    record = ProcessRecord(1, "another boot:1", f"http://127.0.0.1:{port}/api", "")
    record.write(project.record("server"))
    return record


def test_at_a_port_that_another_program_took_it_is_not_started(
    died: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        record = _record(died, taken.getsockname()[1])
        with pytest.raises(ServiceError, match="another program has taken port"):
            start_server(died, at_old_port=True)
        assert server_keeper.has_died(died)
        ServerKeeper(died).check()
    assert read_record(died.record("server")) == record
    assert "could not be started again: another program has taken port" in caplog.text


@pytest.fixture
def started(died: Project, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Starts of a server that died; it is this process."""
    starts: list[bool] = []

    def start(project: Project, *, at_old_port: bool) -> ProcessRecord:
        starts.append(at_old_port)
        record = ProcessRecord(os.getpid(), birth_of(os.getpid()) or "", "http://x/api", "")
        record.write(project.record("server"))
        return record

    _record(died, 1)
    monkeypatch.setattr(server_keeper, "start_server", start)
    return starts


class _TimeIsUpError(Exception):
    """The time of a test is up."""


class Clock:
    """Time that passes while somebody sleeps, until it is up."""

    def __init__(self, seconds: float) -> None:
        self.now, self.end = 0.0, seconds
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self.now > self.end:
            raise _TimeIsUpError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(2000.0)
    monkeypatch.setattr(server_keeper, "time", clock)
    return clock


def _watch(project: Project) -> None:
    with pytest.raises(_TimeIsUpError):
        ServerKeeper(project).watch()


def _gaps(moments: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(moments)]


def test_what_a_revived_server_missed_is_told_until_it_is_known(
    died: Project,
    started: list[bool],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes: list[list[str] | Exception] = [ServiceError("answers 503"), OSError("full")]
    outcomes += [TypeError("odd"), ["run 'demo' is completed, as its record says"]]

    def reconcile(project: Project, client: ApiClient, *, has_runner: bool) -> list[str]:
        assert (project, client.url, has_runner) == (died, "http://x/api", True)
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(server_keeper, "reconcile", reconcile)
    _watch(died)
    assert (started, outcomes) == ([True], [])
    assert "could not be started again" not in caplog.text
    assert "what ended meanwhile could not be told, tried again: answers 503" in caplog.text
    assert "what ended meanwhile could not be told, tried again: full" in caplog.text
    assert "TypeError: odd" in caplog.text
    assert caplog.text.count("run 'demo' is completed, as its record says") == 1


def test_a_server_that_dies_while_telling_fails_is_started_at_once(
    died: Project, started: list[bool], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_at, died_at = list[float](), list[float]()

    def reconcile(*_: object, **__: object) -> list[str]:
        told_at.append(clock.now)
        raise ServiceError("silent")

    def sleep(seconds: float) -> None:
        Clock.sleep(clock, seconds)
        if clock.now > 1000 and not died_at:
            died_at.append(clock.now)
            _record(died, 1)

    monkeypatch.setattr(server_keeper, "reconcile", reconcile)
    monkeypatch.setattr(clock, "sleep", sleep)
    _watch(died)
    assert started == [True, True]
    gaps = _gaps([moment for moment in told_at if moment < died_at[0]])
    assert gaps == sorted(gaps)
    assert gaps[-1] > 100 * server_keeper.CHECK_SECONDS
    assert min(moment for moment in told_at if moment > died_at[0]) - died_at[0] <= 4
    assert set(clock.slept) == {server_keeper.CHECK_SECONDS}


def test_a_start_that_fails_is_tried_again_less_and_less_often(
    died: Project, started: list[bool], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried_at: list[float] = []

    def start(*_: object, **__: object) -> None:
        tried_at.append(clock.now)
        raise ServiceError("no")

    monkeypatch.setattr(server_keeper, "start_server", start)
    _watch(died)
    gaps = _gaps(tried_at)
    assert gaps == sorted(gaps)
    assert gaps[-1] == server_keeper.LONGEST_PAUSE_SECONDS


@pytest.mark.parametrize("what", ["settings", "lock", "record"])
def test_the_keeper_outlives_whatever_happens(
    died: Project,
    started: list[bool],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    """The settings are odd, the lock can not be opened, or the record can not be read."""
    told: list[float] = []
    lock, record = died.state / "up.lock", died.record("server")
    whole = record.read_bytes()

    def reconcile(*_: object, **__: object) -> list[str]:
        told.append(clock.now)
        return []

    def sleep(seconds: float) -> None:
        Clock.sleep(clock, seconds)
        if clock.now == 500 and what == "settings":
            died.settings_file.unlink()
        elif clock.now == 500 and what == "lock":
            lock.rmdir()
        elif clock.now == 500:
            record.write_bytes(whole)

    monkeypatch.setattr(server_keeper, "reconcile", reconcile)
    monkeypatch.setattr(clock, "sleep", sleep)
    if what == "settings":
        died.settings_file.write_text("api_auth = ")
    elif what == "lock":
        lock.unlink(missing_ok=True)
        lock.mkdir()
    else:
        record.write_bytes(b"\xff")
    _watch(died)
    assert started == [True]
    assert len(told) == 1
    assert told[0] > 500
    assert "tried again" in caplog.text


def test_a_server_that_was_stopped_meanwhile_is_told_nothing(
    died: Project, started: list[bool], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def reconcile(*_: object, **__: object) -> list[str]:
        tried.append(clock.now)
        died.record("server").unlink()
        raise ServiceError("silent")

    monkeypatch.setattr(server_keeper, "reconcile", reconcile)
    _watch(died)
    assert started == [True]
    assert len(tried) == 1


def test_while_grpo_up_is_at_it_the_keeper_waits(
    died: Project, started: list[bool], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses no time by that: it looks again soon after."""
    stream = (died.state / "up.lock").open("w", encoding="ascii")
    fcntl.flock(stream, fcntl.LOCK_EX)

    def sleep(seconds: float) -> None:
        Clock.sleep(clock, seconds)
        if clock.now >= 500 and not stream.closed:
            assert started == []
            stream.close()
            clock.end = clock.now + server_keeper.CHECK_SECONDS

    monkeypatch.setattr(clock, "sleep", sleep)
    monkeypatch.setattr(server_keeper, "reconcile", lambda *_, **__: [])
    _watch(died)
    assert started == [True]
    assert set(clock.slept) == {server_keeper.CHECK_SECONDS}
