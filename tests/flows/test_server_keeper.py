"""A server that died comes back where its runner looks for it, or not at all."""

import fcntl
import os
import socket
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
        assert not ServerKeeper(died).check()
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


def test_what_a_revived_server_missed_is_told_until_it_is_known(
    died: Project,
    started: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes: list[list[str] | Exception] = [ServiceError("answers 503"), OSError("full")]
    outcomes.append(["run 'demo' is completed, as its record says"])

    def reconcile(project: Project, client: ApiClient, *, has_runner: bool) -> list[str]:
        assert (project, client.url, has_runner) == (died, "http://x/api", True)
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(server_keeper, "reconcile", reconcile)
    keeper = ServerKeeper(died)
    assert [keeper.check() for _ in range(5)] == [False, False, True, True, True]
    assert (started, outcomes) == ([True], [])
    assert "could not be started again" not in caplog.text
    assert "what ended meanwhile could not be told, tried again: answers 503" in caplog.text
    assert "what ended meanwhile could not be told, tried again: full" in caplog.text
    assert caplog.text.count("run 'demo' is completed, as its record says") == 1


def test_a_server_that_was_stopped_meanwhile_is_told_nothing(
    died: Project, started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reconcile(*_: object, **__: object) -> list[str]:
        raise ServiceError("silent")

    monkeypatch.setattr(server_keeper, "reconcile", reconcile)
    keeper = ServerKeeper(died)
    assert not keeper.check()
    died.record("server").unlink()
    assert keeper.check()
    assert started == [True]


def test_while_grpo_up_is_at_it_the_keeper_waits(died: Project, started: list[bool]) -> None:
    with (died.state / "up.lock").open("w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert not ServerKeeper(died).check()
    assert started == []
