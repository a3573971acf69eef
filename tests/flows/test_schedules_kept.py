"""What a change of one schedule leaves of the others, on a real server that plans nothing itself.

Without its services the server makes no flow run by itself, so what a change drops and nobody plans
again is missing for ever, and no test has to wait.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.api import ApiClient
from flows.local import BUSY_SECONDS
from flows.processes import ProcessRecord, birth_of, stop_tree
from flows.project import PROJECT_ROOT, Project, clean_environment
from flows.replanning import is_of_schedule
from flows.request import make_request
from flows.scheduling import kept_schedules, schedule_by_clock, unschedule
from flows.server import free_port, wait_healthy
from grpo_core.errors import ServiceError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NIGHTLY = "0 3 * * *"
FORM = {"schedule": {"cron": NIGHTLY, "timezone": "UTC"}, "active": True, "slug": None}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    project = Project(tmp_path_factory.mktemp("server"))
    project.prepare()
    port = free_port(4700)
    url = f"http://127.0.0.1:{port}/api"
    words = ["-m", "prefect", "server", "start", "--port", str(port), "--no-services"]
    with project.log("server").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=project.root,
            env=project.environment(url),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    record = ProcessRecord(process.pid, birth_of(process.pid) or "gone", url, "")
    try:
        wait_healthy(project, record)
        _register(url, project.home)
        yield ApiClient(url).patient(BUSY_SECONDS)
    finally:
        stop_tree(record, 10)
        process.wait(10)


@pytest.fixture
def client(server: ApiClient) -> Iterator[ApiClient]:
    """Every test begins with no schedule and nothing planned."""
    yield server
    audit = server.deployment("grpo/audit")["id"]
    for schedule in server.schedules(audit):
        server._call("DELETE", f"/deployments/{audit}/schedules/{schedule['id']}")
    for run in _runs(server):
        server._call("DELETE", f"/flow_runs/{run['id']}")


def _register(url: str, home: Path) -> None:
    environment = clean_environment() | {"PREFECT_API_URL": url, "PREFECT_HOME": str(home)}
    subprocess.run(
        [sys.executable, "-m", "flows.deployments", "--register-only"],
        cwd=PROJECT_ROOT,
        env=environment,
        check=True,
    )


def _runs(client: ApiClient, run: str = "") -> list[dict[str, Any]]:
    found = client._call("POST", "/flow_runs/filter", {"sort": "ID_DESC", "limit": 200})
    return [item for item in found if not run or item["parameters"].get("run") == run]


def _times(client: ApiClient, run: str) -> list[str]:
    """When the run's flow runs that wait are to begin."""
    found = [item for item in _runs(client, run) if item["state"]["type"] == "SCHEDULED"]
    return sorted(item["next_scheduled_start_time"] for item in found)


def _add(client: ApiClient, run: str, cron: str = NIGHTLY) -> None:
    schedule_by_clock(client, make_request("audit", "tiny", None, run, None, None), cron, "UTC")


def _add_due(client: ApiClient, run: str) -> str:
    """A schedule whose flow run was due a minute ago and was not picked up; returns its time."""
    tick = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=1)
    _add(client, run, f"{tick.minute} {tick.hour} * * *")
    audit = client.deployment("grpo/audit")["id"]
    client.plan_runs(audit, tick)
    (due,) = [time for time in _times(client, run) if datetime.fromisoformat(time) <= tick]
    return due


def test_a_new_schedule_is_planned_at_once(client: ApiClient) -> None:
    _add(client, "night")
    planned = _times(client, "night")
    assert len(planned) >= 3
    assert len(set(planned)) == len(planned)
    assert all(datetime.fromisoformat(time).hour == 3 for time in planned)


def _change(client: ApiClient) -> None:
    _add(client, "other", "5 5 * * *")
    assert all("T05:05" in time for time in _times(client, "other"))


def _remove(client: ApiClient) -> None:
    assert unschedule(client, "audit", "other") == 1


def _keep(client: ApiClient) -> None:
    client.save_schedule(client.deployment("grpo/audit")["id"], FORM | {"parameters": {}})
    with kept_schedules(client):
        pass
    assert all(s["slug"] for s in client.schedules(client.deployment("grpo/audit")["id"]))


def _register_anew(client: ApiClient) -> None:
    _register(client.url, Path(os.environ["PREFECT_HOME"]))


@pytest.mark.parametrize("change", [_change, _remove, _keep, _register_anew])
def test_a_change_leaves_what_other_schedules_start_due_or_ahead(
    client: ApiClient, change: Callable[[ApiClient], None]
) -> None:
    _add(client, "other", "4 4 * * *")
    _add(client, "night")
    due = _add_due(client, "late")
    night, late = _times(client, "night"), _times(client, "late")
    change(client)
    assert _times(client, "night") == night
    assert _times(client, "late") == late
    assert due in late
    keys = [run["idempotency_key"] for run in _runs(client, "late")]
    assert all(is_of_schedule(key) for key in keys)  # by which the flow knows them


@pytest.mark.parametrize("is_away", [False, True])
def test_a_registration_that_fails_leaves_what_schedules_start(
    client: ApiClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_away: bool,
) -> None:
    _add(client, "night")
    planned = _times(client, "night")

    def refuse(*words: Any) -> None:
        raise ServiceError("the server answers 500")

    def fail_half_way() -> None:
        for run in _runs(client, "night"):
            client._call("DELETE", f"/flow_runs/{run['id']}")
        if is_away:
            monkeypatch.setattr(client, "plan_runs", refuse)
        raise RuntimeError("deploy failed")

    with pytest.raises(RuntimeError, match="deploy failed"), kept_schedules(client):
        fail_half_way()
    assert _times(client, "night") == ([] if is_away else planned)
    said = "what schedules start may be missing for a minute: the server answers 500"
    assert (said in capsys.readouterr().err) is is_away


def test_removing_takes_what_was_due_of_the_schedule_itself(client: ApiClient) -> None:
    _add(client, "other")
    _add_due(client, "late")
    assert unschedule(client, "audit", "other") == 1  # drops what is due of both, one is made again
    assert _times(client, "other") == []
    assert unschedule(client, "audit", "late") == 1
    assert _times(client, "late") == []


def _due_run(client: ApiClient, due: str) -> dict[str, Any]:
    (run,) = [r for r in _runs(client, "late") if r["next_scheduled_start_time"] == due]
    return run


@contextmanager
def _picked_up_before_removal(client: ApiClient, flow_run_id: str) -> Iterator[None]:
    """A runner is a moment quicker than the removal of a schedule."""
    called, client_call = [], client._call

    def picked_up_first(method: str, path: str, *words: Any, **more: Any) -> Any:
        if method == "DELETE" and not called:
            called.append(path)
            client._set_state(flow_run_id, "PENDING")
        return client_call(method, path, *words, **more)

    client._call = picked_up_first  # type: ignore[method-assign]
    try:
        yield
    finally:
        del client._call  # type: ignore[method-assign]
    assert called


def test_removing_ends_nothing_that_was_picked_up_meanwhile(client: ApiClient) -> None:
    _add(client, "other")
    due = _add_due(client, "late")
    assert unschedule(client, "audit", "other") == 1
    run = _due_run(client, due)
    assert not run["auto_scheduled"]  # planned again
    with _picked_up_before_removal(client, run["id"]):
        assert unschedule(client, "audit", "late") == 1
    assert client.read_flow_run(run["id"]).state_type == "PENDING"


def test_what_was_picked_up_meanwhile_is_not_made_twice(client: ApiClient) -> None:
    _add(client, "other")
    due = _add_due(client, "late")
    run = _due_run(client, due)
    with _picked_up_before_removal(client, run["id"]):
        assert unschedule(client, "audit", "other") == 1
    assert [r["id"] for r in _runs(client, "late") if r["expected_start_time"] == due] == [
        run["id"]
    ]


def test_nothing_is_planned_of_a_deployment_that_is_paused(client: ApiClient) -> None:
    audit = client.deployment("grpo/audit")["id"]
    client._call("POST", f"/deployments/{audit}/pause_deployment")
    try:
        _add(client, "night")
        assert _times(client, "night") == []
    finally:
        client._call("POST", f"/deployments/{audit}/resume_deployment")


def test_a_run_is_taken_anew_when_it_is_tried_again(client: ApiClient) -> None:
    made = client.create_flow_run("grpo/audit", {"run": "retried"}, name="retried", tags=[])
    for state in ("PENDING", "RUNNING"):
        client._set_state(made.id, state)
    first = client.taken_at(made.id)
    client._set_state(made.id, "CRASHED")
    client.mark_running(made.id, "its process works")  # the same try
    assert client.taken_at(made.id) == first
    client._set_state(made.id, "FAILED")
    for state in ("SCHEDULED", "PENDING", "RUNNING"):
        client.mark_ended(made, state, "", "")
    again, entered = client.taken_at(made.id), client.read_flow_run(made.id).state_at
    assert first is not None
    assert again is not None
    assert entered is not None
    assert first < again < entered
