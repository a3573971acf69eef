"""The deployments on a process work pool: a whole run, a cancel, a killed worker, the way back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flows.following import is_held, run_lock
from flows.processes import wait_gone
from grpo_core.types import StageName

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
HOUR = (datetime.now(UTC).hour + 12) % 24
"""Half a day off: nothing of it starts while the tests run."""
EVERY_DAY = {"interval": 86_400.0, "anchor_date": f"2026-01-01T{HOUR:02}:00:00Z", "timezone": "UTC"}
OWN_LAKE = "pool lake"


@dataclass(frozen=True)
class Before:
    """What there was when workers took over.

    Args:
        ids: Deployment → its id.
        planned: What starts by itself, as `grpo schedule` lists it.
        by_hand: Id of a schedule that was made in the UI.
    """

    ids: dict[str, str]
    planned: str
    by_hand: str


@contextmanager
def _worker(checkout: Checkout) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the pool, once it is online: importing Prefect takes a busy machine long."""
    name, prefect = uuid.uuid4().hex, str(Path(sys.executable).with_name("prefect"))
    command = [prefect, "worker", "start", "--pool", "grpo", "--name", name]
    with subprocess.Popen(
        command,
        cwd=checkout.project.root,
        env=checkout.project.environment(checkout.client.url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_online(checkout, name)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(100)
            finally:
                process.kill()


def _wait_online(checkout: Checkout, name: str) -> None:
    deadline = time.monotonic() + 180
    while True:
        workers = checkout.client._call("POST", "/work_pools/grpo/workers/filter", {})
        if any(w["name"] == name and w["status"] == "ONLINE" for w in workers):
            return
        assert time.monotonic() < deadline, workers
        time.sleep(0.5)


def _ids(checkout: Checkout) -> dict[str, str]:
    return {name: found["id"] for name, found in checkout.client.deployments("grpo").items()}


@pytest.fixture(scope="module")
def pool(checkout: Checkout) -> Iterator[Before]:
    """The deployments are given to the pool, with a schedule, a chain and one made in the UI."""
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr
    for words in (
        ("audit", "--cron", f"0 {HOUR} * * *", "--run", "pool-night"),
        ("ingest", "--after", "pool-leader", "--run", "pool-follower"),
    ):
        made = checkout.grpo("schedule", *words)
        assert made.returncode == 0, made.stderr
    client, ids = checkout.client, _ids(checkout)
    client.save_schedule(ids["audit"], {"schedule": EVERY_DAY, "parameters": {"run": "by-hand"}})
    (by_hand,) = [s for s in client.schedules(ids["audit"]) if s["slug"] is None]
    planned = checkout.grpo("schedule").stdout
    try:
        given = checkout.grpo("up", "--pool")
        assert given.returncode == 0, given.stderr
        yield Before(ids, planned, by_hand["id"])
    finally:
        local = checkout.grpo("up", "--local")
        client.remove_schedule(ids["audit"], by_hand["id"])
        checkout.grpo("schedule", "audit", "--off", "--run", "pool-night")
        checkout.grpo("schedule", "ingest", "--off", "--run", "pool-follower")
    assert local.returncode == 0, local.stderr


@pytest.fixture(scope="module")
def pooled(checkout: Checkout, pool: Before) -> dict[str, Any]:
    """The attempt of a whole run that a worker executed."""
    assert checkout.client.pools("grpo").keys() == pool.ids.keys()
    own = checkout.in_lake(OWN_LAKE)
    with _worker(checkout), own.start_run("pooled") as process:
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    return own.latest_attempt("pooled")


def test_a_worker_runs_every_stage(checkout: Checkout, pooled: dict[str, Any]) -> None:
    assert pooled["state"] == "Completed"
    computed = {node["stage"] for node in pooled["nodes"] if node["state"] == "Computed"}
    assert computed == {stage.value for stage in StageName}  # phases may leave equal checkpoints
    flow_run = checkout.in_lake(OWN_LAKE).flow_run("pooled")
    assert (flow_run.work_pool, flow_run.name) == ("grpo", "pooled full")
    assert flow_run.state_type == "COMPLETED"


@pytest.mark.usefixtures("pool")
def test_a_run_on_the_pool_is_cancelled_and_another_worker_s_death_ends_it_resumably(
    checkout: Checkout,
) -> None:
    work = (checkout.long, "train.seed=7")  # nothing to go on from but its own
    lock = run_lock(checkout.lake / "runs" / "shaken")
    with _worker(checkout) as worker:
        with checkout.run_in_training("shaken", *work) as (process, pid):
            family = checkout.family(pid)
            checkout.client.cancel(checkout.flow_run("shaken").id)
            output, _ = process.communicate(timeout=400)
        assert "the run was stopped" in output
        assert checkout.wait_final("shaken", 180).state_type == "CANCELLED"
        assert wait_gone(family, 60)
        assert not is_held(lock)

        with checkout.run_in_training("shaken", *work) as (process, pid):
            family = checkout.family(pid)
            os.kill(worker.pid, signal.SIGKILL)
            output, _ = process.communicate(timeout=400)
    assert "the run crashed: the runner was killed" in output
    assert checkout.wait_final("shaken", 180).state_type == "CRASHED"
    assert wait_gone(family, 60)
    assert not is_held(lock)

    with _worker(checkout), checkout.run_in_training("shaken", *work) as (process, _):
        assert checkout.grpo("stop", "--run", "shaken").returncode == 0
        process.communicate(timeout=400)
    continued = [n for n in checkout.notes("shaken") if n.startswith("continued after step")]
    assert len(continued) == 2


def test_back_on_the_local_runner_all_is_as_it_was(
    checkout: Checkout, pool: Before, pooled: dict[str, Any]
) -> None:
    local = checkout.grpo("up", "--local")
    assert local.returncode == 0, local.stderr
    client = checkout.client
    assert client.pools("grpo") == {}
    assert _ids(checkout) == pool.ids
    assert "pool-night" in pool.planned
    assert "by-hand" in pool.planned
    assert checkout.grpo("schedule").stdout == pool.planned
    assert pool.by_hand in [schedule["id"] for schedule in client.schedules(pool.ids["audit"])]

    own = checkout.in_lake(OWN_LAKE)
    with own.start_run("pooled") as process:
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    assert own.flow_run("pooled").work_pool == ""
    again = own.latest_attempt("pooled")
    assert {node["state"] for node in again["nodes"]} == {"Reused"}
    assert {n["label"]: n["content"] for n in again["nodes"]} == {
        n["label"]: n["content"] for n in pooled["nodes"]
    }
