"""What our client does with a server that is too busy to answer."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import flows.transport
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
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
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
    monkeypatch.setattr(flows.transport, "_KNOCK_SECONDS", 0.01)
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


@contextmanager
def _socket_server(payload: bytes) -> Iterator[ApiClient]:
    """Something that answers every connection with these bytes and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if not connection.recv(65536):
                        return
                    connection.sendall(payload)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        try:
            yield ApiClient(f"http://127.0.0.1:{port}/api")
        finally:
            with socket.create_connection(("127.0.0.1", port)):
                pass
            thread.join()


PAYLOADS = {
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[1,2",
    "nothing": b"",
    "bytes of tls": b"\x15\x03\x01\x00\x02\x02F",
    "no text": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
    "half a refusal": b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\n[1,2",
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
}
CALLS: dict[str, Callable[[ApiClient], Any]] = {
    "read": lambda client: client.read_flow_run("7"),
    "list": lambda client: client.active_flow_runs("grpo"),
    "latest": lambda client: client.latest_flow_runs("grpo"),
    "home": ApiClient.home,
    "set": lambda client: client.mark_crashed("7", "gone"),
    "find": lambda client: client.find_flow_run("7"),
    "taken": lambda client: client.taken_at("7"),
    "deployment": lambda client: client.deployment("grpo/full"),
    "deployments": lambda client: client.deployments("grpo"),
    "workers": lambda client: client.has_worker("grpo"),
    "automations": ApiClient.automations,
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_what_is_no_answer_is_an_absent_server(payload: bytes) -> None:
    with _socket_server(payload) as client:
        assert not client.is_healthy()
        for call in CALLS.values():
            with pytest.raises(ServiceError):
                call(client)


@pytest.mark.parametrize("answer", [{}, True, None, "text", [1], {"id": "7"}], ids=repr)
@pytest.mark.parametrize("call", ["read", "home", "find"])
def test_an_answer_of_another_program_is_an_absent_server(call: str, answer: Any) -> None:
    with _server((200, answer)) as (client, _), pytest.raises(ServiceError, match="no Prefect"):
        CALLS[call](client)


@pytest.mark.parametrize("answer", [{}, True, None, "text", [1], [{}], {"id": "7"}], ids=repr)
@pytest.mark.parametrize(
    "call", ["list", "latest", "taken", "deployments", "workers", "automations"]
)
def test_a_list_of_another_program_is_an_absent_server(call: str, answer: Any) -> None:
    with _server((200, answer)) as (client, _), pytest.raises(ServiceError, match="no Prefect"):
        CALLS[call](client)


@pytest.mark.parametrize("answer", [{}, True, None, "text", [1]], ids=repr)
def test_a_deployment_of_another_program_is_an_absent_server(answer: Any) -> None:
    with _server((200, answer)) as (client, _), pytest.raises(ServiceError, match="no Prefect"):
        client.deployment("grpo/full")


@pytest.mark.parametrize("timestamp", [None, 7, "yesterday", "2026-01-01T00:00:00"], ids=repr)
def test_a_moment_that_is_none_is_of_another_program(timestamp: Any) -> None:
    states = [{"type": "PENDING", "timestamp": timestamp}]
    with _server((200, states)) as (client, _), pytest.raises(ServiceError, match="no Prefect"):
        client.taken_at("7")


def test_only_an_answer_says_that_there_is_no_such_run() -> None:
    with _server((404, {"detail": "Flow run not found"})) as (client, _):
        assert client.find_flow_run("7") is None
    with (
        _server((500, {"detail": "Internal Server Error"})) as (client, _),
        pytest.raises(ServiceError, match="answers 500"),
    ):
        client.find_flow_run("7")
    with _server((200, RUN)) as (client, _):
        assert client.find_flow_run("7") == client.read_flow_run("7")
