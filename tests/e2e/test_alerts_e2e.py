"""Runs that end for a reason that somebody should look at, as Prefect shows them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def _server_and_runner(checkout: Checkout) -> None:
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr


def _heard(checkout: Checkout, run: str, kind: str) -> dict[str, Any]:
    """The alert as the server has it, once it has."""
    wanted = {"event": {"name": [f"grpo.alert.{kind}"]}, "resource": {"id": [f"grpo.run.{run}"]}}
    deadline = time.monotonic() + 120
    while True:
        found = checkout.client._call("POST", "/events/filter", {"filter": wanted, "limit": 5})
        if found["events"]:
            (event,) = found["events"]
            return dict(event)
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _related(event: dict[str, Any]) -> set[str]:
    return {resource["prefect.resource.id"] for resource in event["related"]}


def test_a_loss_that_is_no_number_fails_the_run_and_raises_an_alert(checkout: Checkout) -> None:
    steep = ("train.learning_rate=1e30", "train.warmup_steps=0")  # one step, and weights overflow
    with checkout.start_run("diverged", *steep) as process:
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 1, output
    ended = checkout.flow_run("diverged")
    assert ended.state_type == "FAILED"
    assert "train/1 failed" in ended.message
    assert "nan" in ended.message.lower()
    alert = _heard(checkout, "diverged", "non-finite")
    assert alert["payload"]["message"] in ended.message
    assert f"prefect.flow-run.{ended.id}" in _related(alert)


def test_a_blocking_audit_fails_the_run_and_raises_an_alert(checkout: Checkout) -> None:
    own = checkout.in_lake("audited lake")
    sets = [word for item in own.mini for word in ("--set", item)]
    audit = ("run", "audit", "--run", "audited", "--force", "audit", *sets)
    with own.start_run("audited") as process:
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    first, *later = sorted((own.lake / "ref_logprobs").rglob("part-*.parquet"))
    assert later, f"nothing was scored in training: {first}"
    for part in later:
        part.unlink()  # what the stage ref-logp scored stays, else that would be made again
    failed = own.grpo(*audit)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    ended = own.flow_run("audited")
    assert ended.state_type == "FAILED"
    assert "audit assert_trained_rollouts_in_ref_cache found" in ended.message
    alert = _heard(checkout, "audited", "audit-failed")
    assert alert["payload"]["message"] in ended.message
    assert f"prefect.flow-run.{ended.id}" in _related(alert)

    restored = own.grpo("lake", "restore", "--run", "audited", "--lake", str(own.lake))
    assert restored.returncode == 0, restored.stderr
    passed = own.grpo(*audit)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert own.flow_run("audited").state_type == "COMPLETED"
