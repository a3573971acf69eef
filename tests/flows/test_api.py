"""What our client does with a server that is too busy to answer."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import flows.api
from flows.api import ApiClient
from grpo_core.errors import ServiceError

LOCKED = (503, {"exception_message": "Service Unavailable"})
RUN = {"id": "7", "name": "demo full"}


@contextmanager
def _server(*answers: tuple[int, Any]) -> Iterator[tuple[ApiClient, list[Any]]]:
    """A server that gives each request the next answer, the last one again and again."""
    left, bodies = list(answers), list[Any]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            bodies.append(json.loads(self.rfile.read(length) or b"null"))
            code, answer = left.pop(0) if len(left) > 1 else left[0]
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield ApiClient(f"http://127.0.0.1:{server.server_port}"), bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_locked_database_is_asked_again_and_makes_one_run() -> None:
    with _server((200, {"id": "d"}), LOCKED, LOCKED, (201, RUN)) as (client, bodies):
        made = client.create_flow_run("grpo/full", {}, name="demo full", tags=[])
    assert made.id == "7"
    keys = {body["idempotency_key"] for body in bodies[1:]}
    assert (len(bodies), len(keys)) == (4, 1)


def test_a_database_that_stays_locked_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flows.api, "_KNOCK_SECONDS", 0.01)
    with _server(LOCKED) as (client, bodies):
        assert not client.is_healthy(timeout=2)
        with pytest.raises(ServiceError, match="answers 503 to /x") as failure:
            client._call("GET", "/x", timeout=2)
    assert "try again" in failure.value.hint
    assert len(bodies) > 2


def test_another_refusal_is_final() -> None:
    with (
        _server((500, {"exception_message": "Internal Server Error"})) as (client, bodies),
        pytest.raises(ServiceError, match="answers 500"),
    ):
        client.read_flow_run("7")
    assert len(bodies) == 1


def test_a_run_that_is_taken_is_in_progress_whenever_it_was_to_begin() -> None:
    due = {"id": "1", "name": "waits", "state": {"type": "SCHEDULED"}}
    early = {"id": "2", "name": "tomorrow's", "state": {"type": "RUNNING"}}
    taken = due | {"state": {"type": "PENDING"}}  # between the two questions
    with _server((200, [due]), (200, [early, taken])) as (client, bodies):
        found = client.active_flow_runs("grpo")
    assert {(run.name, run.state_type) for run in found} == {
        ("waits", "PENDING"),
        ("tomorrow's", "RUNNING"),
    }
    limited = {
        kind: "expected_start_time" in body["flow_runs"]
        for body in bodies
        for kind in body["flow_runs"]["state"]["type"]["any_"]
    }
    waiting = limited.pop("SCHEDULED")
    assert waiting
    assert limited == dict.fromkeys(("PENDING", "RUNNING", "CANCELLING"), False)
