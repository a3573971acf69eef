"""`grpo watch` of runs that have a record, none yet, or none at all."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows import watching
from flows.api import ApiClient, FlowRun
from flows.watching import watch
from grpo_core import paths
from grpo_core.errors import DataContractError, ServiceError
from grpo_core.store.progress import ProgressLog

WHY = "config_file: no such file: mine.toml\nhint: give an absolute path\nto go on: grpo run full"


class FakeServer(ApiClient):
    """Knows one flow run, which is in the next of the given states each time it is asked."""

    def __init__(self, *states: str, run: str = "demo", message: str = WHY) -> None:
        super().__init__("")
        self.states, self.run, self.message = list(states), run, message

    def latest_flow_runs(self, flow: str, *, timeout: float = 15.0) -> list[FlowRun]:
        if not self.states:
            raise ServiceError("silent")
        return [self.read_flow_run("7")]

    def read_flow_run(self, flow_run_id: str) -> FlowRun:
        state = self.states.pop(0)
        return FlowRun("7", f"{self.run} full", state, self.message, {"run": self.run})


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(watching, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(paths, "PROJECT_ROOT", tmp_path)
    path = tmp_path / "lake" / "runs" / "demo"
    path.mkdir(parents=True)
    return path


def _attempt(directory: Path, flow_run: str) -> None:
    log = ProgressLog(directory / "progress.jsonl")
    log.emit("run_started", run="demo", attempt=1, flow_run=flow_run, stages=["ingest"])
    log.emit("run_finished", run="demo", attempt=1, seconds=1.0, state="Completed", error="")


@pytest.mark.parametrize("before", [[], ["SCHEDULED", "PENDING", "RUNNING"]])
def test_a_first_attempt_that_failed_before_it_began_says_why(
    directory: Path, capsys: pytest.CaptureFixture[str], before: list[str]
) -> None:
    assert watch(directory, FakeServer(*before, "FAILED")) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "'demo full' has left no record" in told
    assert "the run failed: config_file: no such file: mine.toml" in told
    assert "hint: give an absolute path" in told
    assert ("waiting until it begins" in told) == bool(before)


def test_a_later_attempt_that_failed_before_it_began_is_not_taken_for_the_one_before(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _attempt(directory, "6")
    assert watch(directory, FakeServer("FAILED")) == 1
    assert "mine.toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "server",
    [None, FakeServer(), FakeServer("FAILED", run="other"), FakeServer("COMPLETED")],
    ids=["none", "silent", "of another run", "into another lake"],
)
def test_without_a_failed_flow_run_the_record_tells(
    directory: Path, server: FakeServer | None
) -> None:
    with pytest.raises(DataContractError, match="there is no run 'demo'"):
        watch(directory, server)
    _attempt(directory, "7")
    assert watch(directory, server) == 0


def test_a_scheduled_flow_run_that_was_left_out_is_passed_over(directory: Path) -> None:
    _attempt(directory, "7")

    class Server(FakeServer):
        def latest_flow_runs(self, flow: str, *, timeout: float = 15.0) -> list[FlowRun]:
            skipped = FlowRun("8", "demo audit", "CANCELLED", "in use", {"run": "demo"})
            return [
                replace(skipped, state_name="Skipped"),
                *super().latest_flow_runs(flow, timeout=timeout),
            ]

    assert watch(directory, Server("COMPLETED")) == 0


class Latest(FakeServer):
    """Has flow runs that ended, the latest first."""

    def __init__(self, *runs: FlowRun) -> None:
        super().__init__()
        self.runs = list(runs)

    def latest_flow_runs(self, flow: str, *, timeout: float = 15.0) -> list[FlowRun]:
        return self.runs


def _failed(*overrides: str, preset: str = "tiny") -> FlowRun:
    given = {"run": "demo", "preset": preset, "overrides": list(overrides)}
    began_at = datetime.now(UTC) + timedelta(hours=1)
    return FlowRun("9", "demo full", "FAILED", WHY, given, began_at=began_at)


def test_a_failed_flow_run_of_the_same_name_into_another_lake_is_passed_over(
    directory: Path, tmp_path: Path
) -> None:
    _attempt(directory, "7")
    other = f"execution.lake={tmp_path / 'other'}"
    assert watch(directory, Latest(_failed(other))) == 0
    assert watch(directory, Latest(_failed(other, preset="gone"))) == 0
    assert watch(directory, Latest(_failed(other, f"execution.lake={tmp_path / 'lake'}"))) == 1
    assert watch(directory, Latest(_failed())) == 1
    assert watch(directory, Latest(_failed(preset="gone"))) == 1


def test_a_record_that_goes_on_after_a_failed_start_tells_the_outcome(directory: Path) -> None:
    in_use = _failed()
    began_at = datetime.now(UTC) - timedelta(seconds=5)
    _attempt(directory, "7")
    assert watch(directory, Latest(replace(in_use, began_at=began_at))) == 0
    assert watch(directory, Latest(in_use)) == 1


def test_a_server_that_hangs_delays_what_the_record_knows_but_little(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    def hang(client: ApiClient, request: Any, timeout: float) -> None:
        waited.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(ApiClient, "_open", hang)
    _attempt(directory, "7")
    assert watch(directory, ApiClient("http://127.0.0.1:1/api")) == 0
    assert waited == [watching.GLANCE_SECONDS]
