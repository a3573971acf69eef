"""A run that hangs ends by itself, and Prefect hears of it and of what went wrong before."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
STALL_SECONDS = 30


@pytest.fixture(autouse=True)
def _server_and_runner(checkout: Checkout) -> None:
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr


def test_a_stall_fails_the_run_and_its_alerts_reach_prefect(checkout: Checkout) -> None:
    settings = (
        f"execution.stall_seconds={STALL_SECONDS}",
        "execution.alerts.kl_above_nats=1e-12",
        "train.seed=21",
    )
    with checkout.run_in_training("stuck", checkout.long, *settings) as (process, pid):
        checkout.wait_event("stuck", "alert")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(STALL_SECONDS + 1)
        finally:
            os.kill(pid, signal.SIGCONT)
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 1
    assert f"no unit was finished for {STALL_SECONDS} s" in output
    ended = checkout.flow_run("stuck")
    assert ended.state_type == "FAILED"
    assert "train/1 failed after" in ended.message
    assert "to go on: grpo run full --run stuck" in ended.message

    deadline = time.monotonic() + 180
    while (heard := _alerts(checkout, "stuck")) != {"grpo.alert.kl", "grpo.alert.stalled"}:
        assert time.monotonic() < deadline, heard
        time.sleep(0.5)


def _alerts(checkout: Checkout, run: str) -> set[str]:
    """Kinds of alerts of the run that the server has."""
    wanted = {"event": {"prefix": ["grpo.alert."]}, "resource": {"id": [f"grpo.run.{run}"]}}
    found = checkout.client._call("POST", "/events/filter", {"filter": wanted, "limit": 50})
    return {event["event"] for event in found["events"]}
