import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from flows import api
from flows.api import ApiClient
from flows.local import status
from flows.project import Project
from flows.server import free_port, is_ours
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

        monkeypatch.setattr(api.time, "sleep", wait)
        client = ApiClient(f"http://127.0.0.1:{port}/api")
        with pytest.raises(ServiceError, match="does not answer"):
            client.read_flow_run("7")
        assert knocks == []
        assert client.patient(60).read_flow_run("7").name == "x"
    assert len(knocks) == 2


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
