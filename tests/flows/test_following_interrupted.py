"""Ctrl-C in `grpo run`: the server is asked to cancel, and while it is silent the run itself."""

import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from test_following import FakeServer, make_follower, start

import flows.following
from flows.following import Follower, run_lock
from grpo_core.errors import ServiceError
from grpo_core.stages.stopping import asked_to_stop, forget_stop
from grpo_core.store.locks import hold
from grpo_core.store.progress import ProgressLog


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READ_SECONDS", "ASK_SECONDS"):
        monkeypatch.setattr(flows.following, name, 0.02)


def _interrupted_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> Follower:
    """The server is silent and somebody works on the run; the first Ctrl-C comes at once."""
    server = FakeServer("RUNNING", ServiceError("silent"))
    server.refuses = ServiceError("silent")
    follower = make_follower(tmp_path, server, has_runner=True)
    monkeypatch.setattr(follower.view, "say", said.append)
    start(follower)

    def interrupt() -> None:
        server.before_answer = lambda: None
        raise KeyboardInterrupt

    server.before_answer = interrupt
    return follower


def test_a_second_interrupt_while_the_run_itself_is_asked_detaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = _interrupted_without_a_server(tmp_path, monkeypatch, [])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(flows.following, "request_stop", interrupt)
    with hold(run_lock(follower.path.parent), "run 'demo'"):
        assert not follower.follow().is_final


def test_a_run_that_can_not_be_asked_to_stop_is_followed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    follower = _interrupted_without_a_server(tmp_path, monkeypatch, said)

    def fail(*_: object) -> None:
        ended = {"attempt": 1, "state": "Completed", "error": ""}
        ProgressLog(follower.path).emit("run_finished", run="demo", **ended)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(flows.following, "request_stop", fail)
    with hold(run_lock(follower.path.parent), "run 'demo'"):
        assert follower.follow().state_type == "COMPLETED"
    assert "can not be asked to stop: [Errno 28] No space left on device" in said[0]


def test_an_attempt_that_has_just_taken_the_lock_keeps_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = _interrupted_without_a_server(tmp_path, monkeypatch, [])
    directory = follower.path.parent
    pauses: list[float] = []

    def begin(seconds: float) -> None:
        """Drops what was meant for an earlier attempt, then ends."""
        if not pauses:
            forget_stop(directory)
            ended = {"attempt": 1, "state": "Stopped", "error": ""}
            ProgressLog(follower.path).emit("run_finished", run="demo", **ended)
        pauses.append(seconds)

    monkeypatch.setattr(time, "sleep", begin)
    with hold(run_lock(directory), "run 'demo'"):
        assert follower.follow().state_type == "CANCELLED"
    assert asked_to_stop(directory) is not None


def test_the_first_interrupt_cancels_the_second_detaches(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    server = FakeServer("RUNNING")
    server.before_answer = interrupt
    follower = make_follower(tmp_path, server, has_runner=True)
    start(follower)
    assert not follower.follow().is_final
    assert server.calls == ["cancel"]


@pytest.mark.parametrize("is_at_work", [True, False])
def test_an_interrupt_without_a_server_asks_the_run_itself(
    tmp_path: Path, is_at_work: bool
) -> None:
    server = FakeServer("RUNNING", ServiceError("silent"))
    server.refuses = ServiceError("silent")
    follower = make_follower(tmp_path, server, has_runner=True)
    said: list[str] = []
    follower.view.say = said.append  # type: ignore[method-assign]
    directory = follower.path.parent
    log = start(follower)

    def interrupt() -> None:
        server.before_answer = lambda: None
        log.emit("run_finished", run="demo", attempt=1, state="Stopped", error="as asked")
        raise KeyboardInterrupt

    server.before_answer = interrupt
    with hold(run_lock(directory), "run 'demo'") if is_at_work else nullcontext():
        ended = follower.follow()
    assert (ended.state_type, server.calls) == ("CANCELLED", ["cancel"])
    assert (asked_to_stop(directory) is not None) == is_at_work
    told = "stops there" if is_at_work else "nobody works on the run"
    assert told in said[0]
    assert "the Prefect server does not answer" in said[0]


def test_a_second_interrupt_while_the_server_is_asked_detaches(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    server = FakeServer("RUNNING")
    server.before_answer, server.refuses = interrupt, KeyboardInterrupt()
    follower = make_follower(tmp_path, server, has_runner=True)
    start(follower)
    assert not follower.follow().is_final
