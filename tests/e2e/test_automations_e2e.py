"""What starts runs by itself, and what automations make of our events."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "automations" / "cancel-on-collapse.yaml"
CRON = f"0 {(datetime.now(UTC).hour + 12) % 24} * * *"
"""Half a day off: it does not start while the tests run."""


@pytest.fixture(autouse=True)
def _server_and_runner(checkout: Checkout) -> None:
    """Both are there, whatever the test before has killed."""
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr


def test_an_alert_reaches_an_automation_that_cancels_the_run(checkout: Checkout) -> None:
    made = checkout.prefect("automation", "create", "--from-file", str(EXAMPLE))
    assert made.returncode == 0, made.stdout + made.stderr
    try:
        alarmed = (checkout.long, "execution.alerts.entropy_below_nats=9")
        with checkout.start_run("collapsed", *alarmed) as process:
            output, _ = process.communicate(timeout=400)
    finally:
        found = checkout.client.automations()["cancel a run whose entropy collapses"]
        checkout.client.remove_automation(found["id"])
    assert "ALERT at step" in output
    assert "the run was stopped" in output
    assert process.returncode == 1


def test_a_schedule_and_a_chain_are_made_listed_kept_and_removed(checkout: Checkout) -> None:
    nightly = ("audit", "--cron", CRON, "--timezone", "Europe/Berlin", "--run", "night")
    assert checkout.grpo("schedule", *nightly).returncode == 0
    bad = checkout.grpo("schedule", "audit", "--cron", "never", "--run", "night")
    assert bad.returncode == 1
    assert "never" in bad.stderr
    chained = checkout.grpo("schedule", "ingest", "--after", "leader", "--run", "follower")
    assert chained.returncode == 0, chained.stderr
    listed = " ".join(checkout.grpo("schedule").stdout.split())
    assert f"audit night {CRON} Europe/Berlin" in listed
    assert "ingest follower after run leader" in listed
    _wait_for_nights(checkout)
    assert "none in progress" in checkout.grpo("status").stdout  # the nights to come are not

    from flows.alerts import run_resource

    event = {"event": "grpo.run.completed", "resource": run_resource("leader")}
    event["resource"] |= {"grpo.target": "full"}
    _emit(checkout, event)
    deadline = time.monotonic() + 180
    started = checkout.lake / "runs" / "follower" / "run.json"
    while not started.exists():
        assert time.monotonic() < deadline, checkout.client.active_flow_runs("grpo")
        time.sleep(0.5)
    tags = checkout.flow_run("follower").tags
    assert {"grpo", "run:follower", "preset:tiny"} <= set(tags)
    for words in (("audit", "--off", "--run", "night"), ("ingest", "--off", "--run", "follower")):
        assert "removed 1" in checkout.grpo("schedule", *words).stderr
    assert "night" not in checkout.grpo("schedule").stdout


def _wait_for_nights(checkout: Checkout) -> None:
    """Until the server has made the flow runs that the schedule will start."""
    deadline = time.monotonic() + 120
    ahead = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    while checkout.client._call("POST", "/flow_runs/count", ahead) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _emit(checkout: Checkout, event: dict[str, object]) -> None:
    code = (
        "import sys, json; from prefect.events import emit_event; "
        "from prefect.events.worker import EventsWorker; "
        "emit_event(**json.loads(sys.argv[1])); EventsWorker.instance().drain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(event)],
        env=checkout.project.environment(checkout.client.url),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
