"""Nothing is shown to a server that is away, and nobody waits for it twice."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest
from prefect.artifacts import create_table_artifact
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    PREFECT_CLIENT_CUSTOM_HEADERS,
    PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED,
    temporary_settings,
)

from flows import presence, publishing
from flows.presence import REST_SECONDS, Presence, telling
from grpo_core.errors import ServiceError


class Absent:
    """A server that is away until it has been asked so often."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers, self.asked = answers, 0

    def knock(self) -> bool:
        self.asked += 1
        return self.answers.pop(0) if self.answers else False


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only sleeping moves on."""
    pauses: list[float] = []
    monkeypatch.setattr(presence.time, "sleep", pauses.append)
    monkeypatch.setattr(presence.time, "monotonic", lambda: sum(pauses))
    return pauses


def test_an_outage_is_waited_out_once(slept: list[float]) -> None:
    server = Absent([True])
    watched = Presence(server.knock, patience=30.0)
    assert watched.is_there()
    assert slept == []
    assert [watched.is_there() for _ in range(3)] == [False] * 3
    assert sum(slept) == 30.0
    asked = server.asked
    assert not watched.is_there()
    assert server.asked == asked  # it rests
    for _ in range(2):
        slept.append(REST_SECONDS)
        assert not watched.is_there()
    assert server.asked == asked + 2  # one knock, no wait
    slept.append(REST_SECONDS)
    server.answers = [True]
    assert watched.is_there()
    watched.has_recorded()
    waited = sum(slept)
    assert not watched.is_there()
    assert sum(slept) == waited + 30.0  # another outage


def test_a_server_that_comes_back_meanwhile_is_there(slept: list[float]) -> None:
    assert Presence(Absent([False, False, True]).knock, patience=30.0).is_there()
    assert sum(slept) == 2.0


def test_a_server_that_answers_and_records_nothing_is_waited_for_once(slept: list[float]) -> None:
    watched = Presence(lambda: True)
    assert (watched.is_there(), watched.limits) == (True, (10.0, 1))
    watched.give_up()
    assert not watched.is_there()
    slept.append(REST_SECONDS)
    assert (watched.is_there(), watched.limits) == (True, (5.0, 0))
    watched.give_up()
    assert not watched.is_there()
    slept.append(REST_SECONDS)
    assert watched.is_there()
    watched.has_recorded()
    assert (watched.is_there(), watched.limits) == (True, (10.0, 1))


def test_what_is_not_shown_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import logging

    monkeypatch.setattr(publishing, "server_is_there", lambda: False)
    monkeypatch.setattr(publishing, "get_run_logger", lambda: logging.getLogger("run"))
    published: list[str] = []
    publishing._show("the table of audits", lambda: published.append("audits"))
    assert published == []
    assert "the table of audits is not in the UI: the Prefect server does not answer" in caplog.text


def test_without_an_address_the_server_is_inside_the_process() -> None:
    with temporary_settings({PREFECT_API_URL: None}):
        assert presence.server_is_there()


class Server:
    """Greets, and answers everything else as it is told."""

    def __init__(self) -> None:
        self.code, self.content, self.greeting = 503, b"{}", presence._GREETING
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, json.dumps(outer.greeting).encode())

            def do_POST(self) -> None:
                self._answer(outer.code, outer.content)

            def _answer(self, code: int, data: bytes) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append(self.path)
                outer.headers.append(dict(self.headers))
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/api"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Prefect's server of this process."""
    monkeypatch.setattr(presence, "_KNOWN", {})
    monkeypatch.setattr(presence, "SHOW_RETRIES", 0)
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,))
    thread.start()
    settings: dict[Any, Any] = {
        PREFECT_API_URL: made.url,
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,
        PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED: False,
        PREFECT_CLIENT_CUSTOM_HEADERS: {"X-Proxy": "token"},
    }
    try:
        with temporary_settings(settings):
            yield made
    finally:
        made.http.shutdown()
        thread.join()
        made.http.server_close()


def _show() -> None:
    with telling():
        create_table_artifact(key="bands", table=[{"easy": 1}])


@pytest.mark.filterwarnings("ignore:Artifact creation outside")
@pytest.mark.parametrize(("code", "content"), [(503, b"{}"), (500, b""), (201, b"<"), (201, b"1")])
def test_a_database_that_is_away_is_tried_once_then_left_alone(
    server: Server, code: int, content: bytes
) -> None:
    server.code, server.content = code, content
    assert presence.server_is_there()
    with pytest.raises(ServiceError, match="did not take it"):
        _show()
    assert server.asked == ["/api/hello", "/api/artifacts/"]
    assert not presence.server_is_there()
    assert len(server.asked) == 2
    assert server.headers[0]["X-Proxy"] == "token"


@pytest.mark.filterwarnings("ignore:Artifact creation outside")
@pytest.mark.parametrize("code", [404, 422])
def test_a_refusal_of_one_thing_hides_no_other(server: Server, code: int) -> None:
    server.code = code
    with pytest.raises(ServiceError, match="did not take it"):
        _show()
    assert presence.server_is_there()


@pytest.mark.filterwarnings("ignore:Artifact creation outside")
def test_what_can_not_be_sent_says_nothing_of_the_server(server: Server) -> None:
    with pytest.raises(ServiceError, match="did not take it"), telling():
        create_table_artifact(key="Not A Key", table=[{"easy": 1}])
    assert server.asked == []
    assert presence.server_is_there()


@pytest.mark.parametrize("greeting", ["hello", None, {}, True])
def test_another_program_at_the_port_is_no_server(server: Server, greeting: object) -> None:
    assert presence._knock()
    server.greeting = greeting  # type: ignore[assignment]
    assert not presence._knock()


def test_nobody_at_the_port_is_no_server() -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert not presence._knock()


def test_what_prefects_functions_are_asked_for_inside_is_bounded(server: Server) -> None:
    from prefect.client.orchestration import get_client
    from prefect.context import SyncClientContext

    with SyncClientContext():
        outside = get_client(sync_client=True)
        with telling():
            inside = get_client(sync_client=True)
            assert inside._client.timeout == httpx.Timeout(presence.SHOW_SECONDS)
            assert presence.PREFECT_CLIENT_MAX_RETRIES.value() == presence.SHOW_RETRIES
        assert get_client(sync_client=True) is outside
    assert presence.PREFECT_CLIENT_MAX_RETRIES.value() > presence.SHOW_RETRIES
