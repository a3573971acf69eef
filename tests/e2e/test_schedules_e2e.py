"""Cron starts runs, a run starts what follows it, and what finds its name in use is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from flows.api import FlowRun
from flows.following import run_lock
from grpo_core.store.locks import hold

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
EVERY_MINUTE = "* * * * *"


@dataclass
class Schedules:
    """Makes and removes what starts runs of a checkout."""

    checkout: Checkout
    made: list[tuple[str, str]] = field(default_factory=list)

    def add(self, target: str, run: str, *words: str) -> None:
        """`grpo schedule TARGET --run RUN …`."""
        done = self.checkout.grpo("schedule", target, "--run", run, *words)
        assert done.returncode == 0, done.stderr
        self.made.append((target, run))

    def remove(self, target: str, run: str) -> None:
        """`grpo schedule TARGET --run RUN --off`."""
        off = self.checkout.grpo("schedule", target, "--off", "--run", run)
        assert "removed 1" in off.stderr
        self.made.remove((target, run))


@pytest.fixture
def schedules(checkout: Checkout) -> Iterator[Schedules]:
    """Everything that is left of them is switched off at the end."""
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr
    schedules = Schedules(checkout)
    yield schedules
    for target, run in list(schedules.made):
        schedules.remove(target, run)
    _wait(checkout, lambda: not checkout.client.active_flow_runs("grpo"))


def _wait(checkout: Checkout, is_so: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 300
    while not (found := is_so()):
        assert time.monotonic() < deadline, checkout.client.latest_flow_runs("grpo")
        time.sleep(0.5)
    return found


def _first(checkout: Checkout, run: str) -> FlowRun | None:
    """The run's first flow run that was picked up."""
    found = reversed(checkout.client.latest_flow_runs("grpo"))
    taken = (r for r in found if r.state_type != "SCHEDULED")
    return next((r for r in taken if r.parameters.get("run") == run), None)


def _ended(checkout: Checkout, run: str) -> FlowRun:
    """The same once it has ended."""

    def ended() -> FlowRun | None:
        first = _first(checkout, run)
        return first if first is not None and first.is_final else None

    found: FlowRun = _wait(checkout, ended)
    return found


def _nights_ahead(checkout: Checkout, run: str) -> set[str]:
    """Ids of the run's flow runs that wait; the server may add some at any time."""
    body = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "limit": 200}
    found = checkout.client._call("POST", "/flow_runs/filter", body)
    return {item["id"] for item in found if item["parameters"].get("run") == run}


def test_cron_starts_a_run_which_starts_its_follower_and_a_name_in_use_is_left_out(
    checkout: Checkout, schedules: Schedules
) -> None:
    sets = [word for item in checkout.mini for word in ("--set", item)]
    far = (datetime.now(UTC).hour + 12) % 24
    schedules.add("audit", "night", "--cron", f"0 {far} * * *")
    schedules.add("ingest", "chained", "--after", "ticking", *sets)
    with hold(run_lock(checkout.lake / "runs" / "occupied"), "run 'occupied', by hand"):
        schedules.add("audit", "occupied", "--cron", EVERY_MINUTE)
        schedules.add("full", "ticking", "--cron", EVERY_MINUTE, *sets)
        for target, run in (("audit", "occupied"), ("full", "ticking")):
            _wait(checkout, partial(_first, checkout, run))
            schedules.remove(target, run)  # a second of them would be in the way of the first
        left_out = _ended(checkout, "occupied")
    assert (left_out.state_type, left_out.state_name) == ("CANCELLED", "Skipped")
    assert "is in use by run 'occupied', by hand" in left_out.message

    ticked = _ended(checkout, "ticking")
    assert ticked.state_type == "COMPLETED", ticked
    assert "run:ticking" in ticked.tags
    chained = _ended(checkout, "chained")
    assert chained.state_type == "COMPLETED", chained
    assert (checkout.lake / "runs" / "chained" / "run.json").exists()

    ahead = _nights_ahead(checkout, "night")
    assert ahead  # though other schedules of its deployment came and went
    stopped = checkout.grpo("stop", "--run", "night")
    assert stopped.returncode == 1
    assert "nobody works on run 'night'" in stopped.stderr
    assert ahead <= _nights_ahead(checkout, "night")
