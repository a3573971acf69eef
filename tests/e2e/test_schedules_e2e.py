"""Cron starts runs, a run starts what follows it, and what finds its name in use is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from flows.api import FlowRun
from flows.following import run_lock
from grpo_core.store.locks import hold

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
EVERY_MINUTE = "* * * * *"


@pytest.fixture
def schedule(checkout: Checkout) -> Iterator[Callable[..., None]]:
    """`grpo schedule TARGET --run RUN …`; all of it is switched off at the end."""
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr
    made: list[tuple[str, str]] = []

    def add(target: str, run: str, *words: str) -> None:
        done = checkout.grpo("schedule", target, "--run", run, *words)
        assert done.returncode == 0, done.stderr
        made.append((target, run))

    yield add
    for target, run in made:
        assert "removed 1" in checkout.grpo("schedule", target, "--off", "--run", run).stderr
    _wait(checkout, lambda: not checkout.client.active_flow_runs("grpo"))


def _wait(checkout: Checkout, is_so: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 300
    while not (found := is_so()):
        assert time.monotonic() < deadline, checkout.client.latest_flow_runs("grpo")
        time.sleep(0.5)
    return found


def _ended(checkout: Checkout, run: str) -> FlowRun | None:
    """The run's first flow run that has ended."""
    found = reversed(checkout.client.latest_flow_runs("grpo"))
    return next((r for r in found if r.parameters.get("run") == run and r.is_final), None)


def _nights_ahead(checkout: Checkout, run: str) -> int:
    body = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "limit": 200}
    found = checkout.client._call("POST", "/flow_runs/filter", body)
    return sum(item["parameters"].get("run") == run for item in found)


def test_cron_starts_a_run_which_starts_its_follower_and_a_name_in_use_is_left_out(
    checkout: Checkout, schedule: Callable[..., None]
) -> None:
    sets = [word for item in checkout.mini for word in ("--set", item)]
    far = (datetime.now(UTC).hour + 12) % 24
    schedule("audit", "night", "--cron", f"0 {far} * * *")
    schedule("ingest", "chained", "--after", "ticking", *sets)
    with hold(run_lock(checkout.lake / "runs" / "occupied"), "run 'occupied', by hand"):
        schedule("audit", "occupied", "--cron", EVERY_MINUTE)
        schedule("full", "ticking", "--cron", EVERY_MINUTE, *sets)
        left_out = _wait(checkout, lambda: _ended(checkout, "occupied"))
    assert (left_out.state_type, left_out.state_name) == ("CANCELLED", "Skipped")
    assert "is in use by run 'occupied', by hand" in left_out.message

    ticked = _wait(checkout, lambda: _ended(checkout, "ticking"))
    assert ticked.state_type == "COMPLETED", ticked
    assert "run:ticking" in ticked.tags
    chained = _wait(checkout, lambda: _ended(checkout, "chained"))
    assert chained.state_type == "COMPLETED", chained
    assert (checkout.lake / "runs" / "chained" / "run.json").exists()

    ahead = _nights_ahead(checkout, "night")
    assert ahead > 0
    stopped = checkout.grpo("stop", "--run", "night")
    assert stopped.returncode == 1
    assert "nobody works on run 'night'" in stopped.stderr
    assert _nights_ahead(checkout, "night") == ahead
