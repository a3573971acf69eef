"""Whose schedule is replaced and whose is removed."""

from typing import Any

import pytest

from flows.api import ApiClient
from flows.request import make_request
from flows.scheduling import planned, schedule_by_clock, unschedule


class FakeServer(ApiClient):
    """Holds the schedules of one deployment."""

    def __init__(self) -> None:
        super().__init__("")
        self.saved: dict[str, dict[str, Any]] = {}

    def deployment(self, name: str) -> dict[str, Any]:
        return {"id": "d"}

    def deployment_names(self, flow: str) -> list[str]:
        return ["audit"]

    def schedules(self, deployment_id: str) -> list[dict[str, Any]]:
        return list(self.saved.values())

    def save_schedule(
        self, deployment_id: str, body: dict[str, Any], schedule_id: str | None = None
    ) -> None:
        number = schedule_id or f"s{len(self.saved)}"
        slugs = [s["slug"] for s in self.saved.values() if s["slug"]]
        assert schedule_id or body["slug"] not in slugs
        self.saved[number] = body | {"id": number}

    def remove_schedule(self, deployment_id: str, schedule_id: str) -> None:
        del self.saved[schedule_id]

    def automations(self) -> dict[str, dict[str, Any]]:
        return {}


@pytest.fixture
def server() -> FakeServer:
    """`Demo` and `demo`, the latter scheduled twice, and one for it that the UI made."""
    found = FakeServer()
    for run, cron in (("Demo", "1 * * * *"), ("demo", "2 * * * *"), ("demo", "3 * * * *")):
        request = make_request("audit", "tiny", None, run, None, None)
        schedule_by_clock(found, request, cron, "UTC")
    times = {"cron": "4 * * * *", "timezone": "UTC"}
    form = {"schedule": times, "active": True, "parameters": {"run": "demo"}, "slug": None}
    found.save_schedule("d", form)
    return found


def _times(server: FakeServer) -> list[tuple[str, str]]:
    return [(item.run, item.when) for item in planned(server)]


def test_names_that_differ_in_case_are_two_and_the_same_name_is_replaced(
    server: FakeServer,
) -> None:
    assert _times(server) == [
        ("Demo", "1 * * * * UTC"),
        ("demo", "3 * * * * UTC"),
        ("demo", "4 * * * * UTC"),
    ]


def test_off_removes_what_starts_the_run_whoever_made_it(server: FakeServer) -> None:
    assert unschedule(server, "audit", "demo") == 2
    assert _times(server) == [("Demo", "1 * * * * UTC")]


def test_a_schedule_that_names_no_run_starts_that_of_the_preset(server: FakeServer) -> None:
    times = {"cron": "5 * * * *", "timezone": "UTC"}
    form = {"schedule": times, "active": True, "parameters": {}, "slug": None}
    server.save_schedule("d", form)
    assert _times(server)[-1] == ("tiny", "5 * * * * UTC")
    assert unschedule(server, "audit", "tiny") == 1


def test_a_schedule_of_an_earlier_release_is_replaced_by_its_own_run_only() -> None:
    server = FakeServer()
    times = {"cron": "6 * * * *", "timezone": "UTC"}
    old = {"schedule": times, "active": True, "parameters": {"run": "demo"}, "slug": "demo"}
    server.save_schedule("d", old)
    for run, cron in (("Demo", "7 * * * *"), ("demo", "8 * * * *")):
        request = make_request("audit", "tiny", None, run, None, None)
        schedule_by_clock(server, request, cron, "UTC")
    assert sorted(_times(server)) == [("Demo", "7 * * * * UTC"), ("demo", "8 * * * * UTC")]
