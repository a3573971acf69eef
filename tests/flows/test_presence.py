"""Nothing is shown to a server that is away, and nobody waits for it twice."""

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import presence, publishing
from flows.api import ApiClient
from flows.presence import Presence


class Absent(ApiClient):
    """A server that is away until it has been asked so often."""

    def __init__(self, answers: list[bool]) -> None:
        super().__init__("")
        self.answers, self.asked = answers, 0

    def is_healthy(self, timeout: float = 2.0) -> bool:
        self.asked += 1
        return self.answers.pop(0) if self.answers else False


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only sleeping moves on."""
    pauses: list[float] = []
    monkeypatch.setattr(presence.time, "sleep", pauses.append)
    monkeypatch.setattr(presence.time, "monotonic", lambda: sum(pauses))
    return pauses


def test_an_outage_is_waited_out_once(slept: list[float]) -> None:
    server = Absent([True])
    watched = Presence(server, patience=30.0)
    assert watched.is_there()
    assert slept == []
    assert [watched.is_there() for _ in range(3)] == [False] * 3
    assert sum(slept) == 30.0
    server.answers = [True]
    assert watched.is_there()
    assert not watched.is_there()
    assert sum(slept) == 60.0  # another outage


def test_a_server_that_comes_back_meanwhile_is_there(slept: list[float]) -> None:
    assert Presence(Absent([False, False, True]), patience=30.0).is_there()
    assert sum(slept) == 2.0


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
