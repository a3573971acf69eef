"""Handing deployments to a work pool and back, without a server."""

from pathlib import Path
from typing import Any

import pytest

from flows.api import ApiClient
from flows.project import Project
from flows.work_pool import give_to_pool, take_back
from grpo_core.errors import ServiceError

DEPLOYMENTS = [
    {"id": "d1", "name": "audit", "work_pool_name": "grpo", "schedules": []},
    {"id": "d2", "name": "full", "work_pool_name": None, "schedules": []},
]


class FakeServer(ApiClient):
    def __init__(self) -> None:
        super().__init__("")
        self.changes: list[tuple[str, str, Any]] = []
        self.runs: list[dict[str, Any]] = []

    def _call(self, method: str, path: str, body: Any = None, *, timeout: float = 0) -> Any:
        if path == "/deployments/filter":
            return DEPLOYMENTS
        if path == "/flow_runs/filter":
            return self.runs
        self.changes.append((method, path, body))
        return None


def test_taken_back_a_deployment_stays_the_one_that_schedules_and_chains_point_at() -> None:
    server, told = FakeServer(), list[str]()
    take_back(server, told.append)
    assert server.changes == [("PATCH", "/deployments/d1", {"work_pool_name": None})]
    assert told == ["the local runner executes from now on"]


def test_who_executes_does_not_change_while_runs_are_in_progress(tmp_path: Path) -> None:
    server, told = FakeServer(), list[str]()
    running = {"state": {"type": "RUNNING"}, "parameters": {"run": "demo"}}
    nightly = {"id": "9", "name": "tiny audit", "state": {"type": "PENDING"}}
    server.runs = [nightly, *(running | {"id": i, "name": "demo full"} for i in "78")]
    with pytest.raises(ServiceError, match=r"in progress: demo, tiny\n") as failure:
        take_back(server, told.append)
    assert "grpo stop" in failure.value.hint
    with pytest.raises(ServiceError, match=r"in progress: demo, tiny\n"):
        give_to_pool(Project(tmp_path), server, told.append)
    assert (server.changes, told) == ([], [])
