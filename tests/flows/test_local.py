"""What is said when the server that runs can not be asked to cancel."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from flows import local
from flows.api import ApiClient, FlowRun
from flows.processes import ProcessRecord, birth_of
from flows.project import Project
from grpo_core.errors import ServiceError


@pytest.mark.parametrize("works", [True, False])
def test_only_runs_that_live_are_said_to_be_killed(tmp_path: Path, works: bool) -> None:
    project, told = Project(tmp_path), list[str]()
    project.prepare()
    project.flow_process("7").parent.mkdir(exist_ok=True)
    alive = ProcessRecord(os.getpid(), birth_of(os.getpid()) or "", "http://127.0.0.1:1/api", "")
    for service in ("server", "runner"):
        alive.write(project.record(service))
    ProcessRecord(os.getpid(), "another", "", "").write(project.flow_process("6"))
    if works:
        alive.write(project.flow_process("7"))
    local._cancel_runs(project, told.append)
    assert [text.partition(":")[0] for text in told] == (
        ["runs in progress are killed and not cancelled"] if works else []
    )


def test_a_server_that_is_slow_once_is_asked_again_before_runs_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, told, calls = Project(tmp_path), list[str](), list[str]()
    project.prepare()
    alive = ProcessRecord(os.getpid(), birth_of(os.getpid()) or "", "http://127.0.0.1:1/api", "")
    for service in ("server", "runner"):
        alive.write(project.record(service))
    run = FlowRun("7", "demo full", "RUNNING", "", {})

    class Client(ApiClient):
        def active_flow_runs(self, flow: str) -> list[FlowRun]:
            calls.append("asked")
            if len(calls) == 1:
                raise ServiceError("timed out")
            return [run]

        def cancel(self, flow_run_id: str) -> None:
            calls.append(f"cancelled {flow_run_id}")

        def read_flow_run(self, flow_run_id: str) -> FlowRun:
            return replace(run, state_type="CANCELLED")

    monkeypatch.setattr(local, "client_of", lambda *_: Client(""))
    monkeypatch.setattr(local, "_POLL_SECONDS", 0.01)
    local._cancel_runs(project, told.append)
    assert calls == ["asked", "asked", "cancelled 7"]
    assert told == ["run 'demo full' is cancelled"]
