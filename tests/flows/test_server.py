import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from flows import transport
from flows.api import ApiClient
from flows.local import status
from flows.processes import ProcessRecord, birth_of, stop_all
from flows.project import Project
from flows.server import free_port, is_ours, record_process, start_server
from grpo_core.errors import ConfigError, ServiceError

RUN = {"id": "7", "name": "x", "state": {"type": "RUNNING"}}


@contextmanager
def _server(answers: dict[str, tuple[int, Any]], port: int = 0) -> Iterator[str]:
    """A server that gives fixed answers by method and path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, body = answers.get(f"{self.command} {self.path}", (404, {"detail": "no"}))
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/api"
        server.shutdown()
        thread.join()


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) > port


QUICKER = """\
import json, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

port = int(sys.argv[sys.argv.index("--port") + 1])


class Settings(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"home": HOME}).encode())


if Path("rival").exists():
    HTTPServer(("127.0.0.1", port), Settings).serve_forever()
rival = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])))"
rival += "; print(flush=True); [s.accept()[0].close() for _ in range(10**6)]"
process = subprocess.Popen([sys.executable, "-c", rival, str(port)], stdout=subprocess.PIPE)
process.stdout.readline()
Path("rival").write_text(str(process.pid))
sys.exit("address already in use")
"""
"""In the place of Prefect: at its first start another program is quicker, then it serves."""


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_port_that_is_taken_while_the_server_starts_costs_only_time(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.prepare()
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "__init__.py").touch()
    program = QUICKER.replace("HOME", repr(str(project.home)))
    (tmp_path / "flows" / "prefect_server.py").write_text(program, encoding="utf-8")
    server = None
    try:
        server = start_server(project)
        assert server.is_alive()
        assert is_ours(project, server.address)
    finally:
        rival = int((tmp_path / "rival").read_text(encoding="utf-8"))
        taken = [ProcessRecord(rival, birth_of(rival) or "", "", ""), server]
        stop_all([record for record in taken if record is not None], 1.0)


def test_somebody_elses_server_is_not_ours(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with _server({"GET /api/admin/settings": (200, {"home": "/home/somebody/.prefect"})}) as url:
        assert not is_ours(project, url)
    with _server({"GET /api/admin/settings": (200, {"home": str(project.home)})}) as url:
        assert is_ours(project, url)
    with _server({"GET /api/health": (200, True)}) as url:
        assert ApiClient(url).is_healthy()
        assert not is_ours(project, url)


def test_nothing_is_alive_in_a_fresh_project(tmp_path: Path) -> None:
    found = status(Project(tmp_path))
    assert (found.server, found.runner, found.is_healthy) == (None, None, False)


def test_refused_parameters_name_the_field() -> None:
    detail = "Validation failed for field 'preset'. Failure reason: 'x' is not one of ['tiny']"
    answers = {
        "GET /api/deployments/name/grpo/full": (200, {"id": "7"}),
        "POST /api/deployments/7/create_flow_run": (409, {"detail": detail}),
    }
    with _server(answers) as url, pytest.raises(ConfigError, match="field 'preset'"):
        ApiClient(url).create_flow_run("grpo/full", {"preset": "x"}, name="x", tags=[])


def test_a_silent_server_is_named_with_what_to_do() -> None:
    with pytest.raises(ServiceError, match="does not answer") as failure:
        ApiClient("http://127.0.0.1:9/api").read_flow_run("7")
    assert "grpo up" in failure.value.hint


def test_a_patient_client_bears_with_a_server_that_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, answers, knocks = free_port(20_000), {"GET /api/flow_runs/7": (200, RUN)}, list[float]()
    with ExitStack() as later:

        def wait(seconds: float) -> None:
            if len(knocks) == 1:
                later.enter_context(_server(answers, port))
            knocks.append(seconds)

        monkeypatch.setattr(transport.time, "sleep", wait)
        client = ApiClient(f"http://127.0.0.1:{port}/api")
        with pytest.raises(ServiceError, match="does not answer"):
            client.read_flow_run("7")
        assert knocks == []
        assert client.patient(60).read_flow_run("7").name == "x"
    assert len(knocks) == 2


def test_a_server_whose_database_is_locked_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, tuple[int, Any]] = {
        "GET /api/flow_runs/7": (503, {"exception_message": "Service Unavailable"}),
        "GET /api/flow_runs/8": (500, {"exception_message": "Internal Server Error"}),
    }

    def unlock(seconds: float) -> None:
        answers["GET /api/flow_runs/7"] = (200, RUN)

    monkeypatch.setattr(transport.time, "sleep", unlock)
    with _server(answers) as url:
        assert ApiClient(url).read_flow_run("7").name == "x"
        with pytest.raises(ServiceError, match="answers 500"):
            ApiClient(url).read_flow_run("8")


def test_a_waiting_run_is_cancelled_a_running_one_asked_to_stop() -> None:
    states: list[Any] = []

    class Recording(ApiClient):
        def _call(self, method: str, path: str, body: Any = None, **_: Any) -> Any:
            if method == "GET":
                return {"id": "7", "name": "x", "state": {"type": self.state}}
            states.append(body["state"]["type"])
            return None

        state = "SCHEDULED"

    client = Recording("")
    for client.state in ("SCHEDULED", "PENDING", "RUNNING", "COMPLETED"):
        client.cancel("7")
    assert states == ["CANCELLED", "CANCELLING", "CANCELLING"]


def test_a_service_whose_record_can_not_be_written_does_not_run_on(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.prepare()
    project.record("server").with_suffix(".tmp").symlink_to("/dev/full")
    process = subprocess.Popen(["sleep", "600"])
    with pytest.raises(OSError, match="No space left"):
        record_process(project, "server", process, "", "")
    assert process.wait(10) != 0
