"""Handing deployments to a work pool and back, without a server."""

from typing import Any

from flows.api import ApiClient
from flows.work_pool import take_back

DEPLOYMENTS = [
    {"id": "d1", "name": "audit", "work_pool_name": "grpo"},
    {"id": "d2", "name": "full", "work_pool_name": None},
]


class FakeServer(ApiClient):
    def __init__(self) -> None:
        super().__init__("")
        self.changes: list[tuple[str, str, Any]] = []

    def _call(self, method: str, path: str, body: Any = None, *, timeout: float = 0) -> Any:
        if path == "/deployments/filter":
            return DEPLOYMENTS
        self.changes.append((method, path, body))
        return None


def test_taken_back_a_deployment_stays_the_one_that_schedules_and_chains_point_at() -> None:
    server, told = FakeServer(), list[str]()
    take_back(server, told.append)
    assert server.changes == [("PATCH", "/deployments/d1", {"work_pool_name": None})]
    assert told == ["the local runner executes from now on"]
