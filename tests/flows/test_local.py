"""What is said when the server that runs can not be asked to cancel."""

import os
from pathlib import Path

import pytest

from flows import local
from flows.processes import ProcessRecord, birth_of
from flows.project import Project


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
