"""The same deployments on a process work pool, and what automations make of our events."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flows.api import ApiClient
from flows.server import client_of, find_server

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "automations" / "cancel-on-collapse.yaml"


def _client(checkout: Checkout) -> ApiClient:
    server = find_server(checkout.project)
    assert server is not None
    return client_of(checkout.project, server)


@contextmanager
def _worker(checkout: Checkout) -> Iterator[None]:
    command = [str(Path(sys.executable).with_name("prefect")), "worker", "start", "--pool", "grpo"]
    environment = checkout.project.environment(_client(checkout).url)
    with subprocess.Popen(
        command,
        cwd=checkout.project.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(40)


@pytest.fixture(autouse=True)
def _local_before_and_after(checkout: Checkout) -> Iterator[None]:
    """Server and local runner are there, whatever the test before has left or this one leaves."""
    _take_back(checkout)
    yield
    _take_back(checkout)


def _take_back(checkout: Checkout) -> None:
    local = checkout.grpo("up", "--local")
    assert local.returncode == 0, local.stderr


@pytest.fixture
def planned(checkout: Checkout) -> Iterator[str]:
    """What `grpo schedule` lists with one schedule and one chain."""
    nightly = ("schedule", "audit", "--cron", "0 3 * * *", "--run", "pool-night")
    chained = ("schedule", "ingest", "--after", "pool-leader", "--run", "pool-follower")
    for words in (nightly, chained):
        made = checkout.grpo(*words)
        assert made.returncode == 0, made.stderr
    yield checkout.grpo("schedule").stdout
    checkout.grpo("schedule", "audit", "--off", "--run", "pool-night")
    checkout.grpo("schedule", "ingest", "--off", "--run", "pool-follower")


def test_the_same_names_run_on_a_work_pool_and_come_back(checkout: Checkout, planned: str) -> None:
    client = _client(checkout)
    ids = {name: found["id"] for name, found in client.deployments("grpo").items()}
    names = set(ids)
    given = checkout.grpo("up", "--pool")
    assert given.returncode == 0, given.stderr
    assert set(client.pools("grpo")) == names
    words = [word for item in checkout.mini for word in ("--set", item)]
    with _worker(checkout):
        done = checkout.grpo("run", "ingest", "--run", "pooled", *words)
    assert done.returncode == 0, done.stderr
    flow_run = checkout.latest_attempt("pooled")["request"]["flow_run"]
    assert client.read_flow_run(flow_run).work_pool == "grpo"
    assert client.read_flow_run(flow_run).name == "pooled ingest"

    _take_back(checkout)
    assert client.pools("grpo") == {}
    assert {name: found["id"] for name, found in client.deployments("grpo").items()} == ids
    assert "pool-night" in planned
    assert checkout.grpo("schedule").stdout == planned
    again = checkout.grpo("run", "ingest", "--run", "pooled", *words)
    assert again.returncode == 0, again.stderr
    flow_run = checkout.latest_attempt("pooled")["request"]["flow_run"]
    assert client.read_flow_run(flow_run).work_pool == ""


def test_an_alert_reaches_an_automation_that_cancels_the_run(checkout: Checkout) -> None:
    made = checkout.prefect("automation", "create", "--from-file", str(EXAMPLE))
    assert made.returncode == 0, made.stdout + made.stderr
    try:
        alarmed = ("train.phases.0.max_steps=600", "execution.alerts.entropy_below_nats=9")
        with checkout.start_run("collapsed", *alarmed) as process:
            output, _ = process.communicate(timeout=180)
    finally:
        client = _client(checkout)
        found = client.automations()["cancel a run whose entropy collapses"]
        client.remove_automation(found["id"])
    assert "ALERT at step" in output
    assert "the run was stopped" in output
    assert process.returncode == 1


def test_a_schedule_and_a_chain_are_made_listed_kept_and_removed(checkout: Checkout) -> None:
    nightly = ("audit", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--run", "night")
    assert checkout.grpo("schedule", *nightly).returncode == 0
    bad = checkout.grpo("schedule", "audit", "--cron", "never", "--run", "night")
    assert bad.returncode == 1
    assert "never" in bad.stderr
    chained = checkout.grpo("schedule", "ingest", "--after", "leader", "--run", "follower")
    assert chained.returncode == 0, chained.stderr
    listed = " ".join(checkout.grpo("schedule").stdout.split())
    assert "audit night 0 3 * * * Europe/Berlin" in listed
    assert "ingest follower after run leader" in listed

    from flows.alerts import run_resource

    event = {"event": "grpo.run.completed", "resource": run_resource("leader")}
    event["resource"] |= {"grpo.target": "full"}
    _emit(checkout, event)
    client, deadline = _client(checkout), time.monotonic() + 180
    started = checkout.lake / "runs" / "follower" / "run.json"
    while not started.exists():
        assert time.monotonic() < deadline, client.active_flow_runs("grpo")
        time.sleep(0.5)
    for words in (("audit", "--off", "--run", "night"), ("ingest", "--off", "--run", "follower")):
        assert "removed 1" in checkout.grpo("schedule", *words).stderr
    assert "night" not in checkout.grpo("schedule").stdout


def _emit(checkout: Checkout, event: dict[str, object]) -> None:
    code = (
        "import sys, json; from prefect.events import emit_event; "
        "from prefect.events.worker import EventsWorker; "
        "emit_event(**json.loads(sys.argv[1])); EventsWorker.instance().drain()"
    )
    import json

    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(event)],
        env=checkout.project.environment(_client(checkout).url),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
