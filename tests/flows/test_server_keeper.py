"""A server that died comes back where its runner looks for it, or not at all."""

import socket
from pathlib import Path

import pytest

from flows import server_keeper
from flows.processes import ProcessRecord, read_record
from flows.project import Project
from flows.server import start_server
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
        assert not server_keeper.revive(died)
    assert read_record(died.record("server")) == record
    assert "could not be started again: another program has taken port" in caplog.text
