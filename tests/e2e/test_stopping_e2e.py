"""Stopping, killing, sharing: what really happens to the processes, the server and the lake."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from flows.api import FlowRun
from flows.following import is_held, run_lock
from flows.processes import ProcessRecord, birth_of, descendants, read_record, wait_gone
from flows.server import client_of, find_server
from grpo_core.store.progress import read_events

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LONG = "train.phases.0.max_steps=600"
"""Enough steps to be interrupted long before the end."""


@pytest.fixture(autouse=True)
def _server_and_runner(checkout: Checkout) -> None:
    """Both are there, whatever the test before has killed."""
    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr


def _flow_run(checkout: Checkout, run: str) -> FlowRun:
    """The flow run of the latest attempt, as the server has it."""
    server = find_server(checkout.project)
    assert server is not None
    flow_run = checkout.latest_attempt(run)["request"]["flow_run"]
    return client_of(checkout.project, server).read_flow_run(flow_run)


def _wait_final(checkout: Checkout, run: str, seconds: float) -> FlowRun:
    deadline = time.monotonic() + seconds
    while not (found := _flow_run(checkout, run)).is_final:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    return found


def _record(checkout: Checkout, name: str) -> ProcessRecord:
    record = read_record(checkout.project.record(name))
    assert record is not None
    return record


def _family(pid: int) -> list[ProcessRecord]:
    return [ProcessRecord(pid, birth_of(pid) or "gone", "", ""), *descendants(pid)]


def _notes(checkout: Checkout, run: str) -> list[str]:
    events, _ = read_events(checkout.lake / "runs" / run / "progress.jsonl")
    return [event["text"] for event in events if event["event"] == "note"]


def _plan(checkout: Checkout, run: str, *overrides: str) -> str:
    words = [word for item in (*checkout.mini, *overrides) for word in ("--set", item)]
    planned = checkout.grpo("plan", "--run", run, *words)
    assert planned.returncode == 0, planned.stderr
    return planned.stdout


def test_grpo_stop_finishes_the_unit_saves_it_and_the_next_run_goes_on(checkout: Checkout) -> None:
    with checkout.run_in_training("halted", LONG) as (process, pid):
        family = _family(pid)
        stopped = checkout.grpo("stop", "--run", "halted")
        output, _ = process.communicate(timeout=180)
    assert stopped.returncode == 0, stopped.stderr
    assert process.returncode == 1
    assert "the run was stopped: train/1 after" in output
    assert wait_gone(family, 10)
    ended = _flow_run(checkout, "halted")
    assert (ended.state_type, ended.state_name) == ("CANCELLED", "Stopped")
    assert "to go on: grpo run full --run halted" in ended.message
    steps = int(ended.message.split("train/1 after ")[1].split()[0])

    with checkout.run_in_training("halted", LONG) as (process, _):
        assert checkout.grpo("stop", "--run", "halted", "--now").returncode == 0
        process.communicate(timeout=180)
    assert f"continued after step {steps}" in _notes(checkout, "halted")
    assert checkout.latest_attempt("halted")["state"] == "Stopped"


def test_nobody_to_stop_is_said(checkout: Checkout) -> None:
    done = checkout.grpo("stop", "--run", "nobody")
    assert done.returncode == 1
    assert "nobody works on run 'nobody'" in done.stderr


def test_a_killed_runner_takes_its_flow_along_and_the_run_is_crashed(checkout: Checkout) -> None:
    with checkout.run_in_training("orphan", LONG) as (process, pid):
        family = _family(pid)
        os.kill(_record(checkout, "runner").pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "the run crashed: the runner was killed" in output
    assert wait_gone(family, 10)
    assert _flow_run(checkout, "orphan").state_type == "CRASHED"
    assert checkout.latest_attempt("orphan")["state"] == "Stopped"
    assert "PARTIAL" in _plan(checkout, "orphan", LONG)


def test_runner_and_flow_killed_at_once_are_found_by_the_next_start(checkout: Checkout) -> None:
    with checkout.run_in_training("lost", LONG) as (process, pid):
        family = _family(pid)
        process.send_signal(signal.SIGKILL)  # nobody is left to tell the server
        for victim in (_record(checkout, "runner").pid, *(member.pid for member in family)):
            os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=180)
    assert _flow_run(checkout, "lost").state_type == "RUNNING"
    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr
    assert "'lost full' crashed: its process is gone" in up.stderr
    assert _flow_run(checkout, "lost").state_type == "CRASHED"
    assert "PARTIAL" in _plan(checkout, "lost", LONG)


def test_a_server_that_dies_comes_back_and_the_run_completes(checkout: Checkout) -> None:
    before = _record(checkout, "server")
    with checkout.run_in_training("steady", "train.phases.0.max_steps=30", "seed=3") as (
        process,
        _,
    ):
        os.kill(before.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    after = _record(checkout, "server")
    assert after.pid != before.pid
    assert after.address == before.address
    assert _wait_final(checkout, "steady", 30).state_type == "COMPLETED"


def test_two_runs_at_once_share_the_work_and_the_waiter_says_for_whom(checkout: Checkout) -> None:
    with (
        checkout.run_in_training("first", LONG, "train.seed=11") as (one, _),
        checkout.start_run("second", LONG, "train.seed=11") as two,
    ):
        _wait_for_event(checkout, "second", "stage_waiting")
        assert checkout.grpo("stop", "--run", "first").returncode == 0
        one.communicate(timeout=180)
        _wait_for_event(checkout, "second", "progress")
        assert checkout.grpo("stop", "--run", "second").returncode == 0
        two.communicate(timeout=180)
    waiting = _wait_for_event(checkout, "second", "stage_waiting")
    assert waiting["label"] == "train/1"
    assert "run 'first': train/1 (pid " in waiting["holder"]
    assert any(note.startswith("continued after step") for note in _notes(checkout, "second"))
    states = {n["label"]: n["state"] for n in checkout.latest_attempt("second")["nodes"]}
    assert set(states.values()) == {"Reused"}


def _wait_for_event(checkout: Checkout, run: str, kind: str) -> dict[str, Any]:
    path = checkout.lake / "runs" / run / "progress.jsonl"
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        found = [event for event in read_events(path)[0] if event["event"] == kind]
        if found:
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"run {run} has no event {kind}")


def test_cancelling_in_prefect_ends_the_run_and_its_processes(checkout: Checkout) -> None:
    with checkout.run_in_training("cancelled", LONG) as (process, pid):
        family = _family(pid)
        flow_run = checkout.latest_attempt("cancelled")["request"]["flow_run"]
        assert checkout.prefect("flow-run", "cancel", flow_run).returncode == 0
        output, _ = process.communicate(timeout=180)
    assert "the run was stopped" in output
    assert wait_gone(family, 10)
    assert not is_held(run_lock(checkout.lake / "runs" / "cancelled"))
    assert _wait_final(checkout, "cancelled", 20).state_type == "CANCELLED"


def test_the_crash_automation_is_made_once(checkout: Checkout) -> None:
    from flows.automations import CRASH_AUTOMATION

    server = find_server(checkout.project)
    assert server is not None
    client = client_of(checkout.project, server)
    first = client.automations()[CRASH_AUTOMATION]
    assert checkout.grpo("up").returncode == 0
    assert client.automations()[CRASH_AUTOMATION] == first
    assert json.dumps(first["actions"]).count("CRASHED") == 1


def test_no_record_of_a_flow_is_left(checkout: Checkout) -> None:
    deadline = time.monotonic() + 180  # a cancelled flow may still be ending
    while any(record.is_alive() for record in _flow_records(checkout)):
        assert time.monotonic() < deadline, checkout.project.flow_processes()
        time.sleep(0.5)
    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr
    assert checkout.project.flow_processes() == []


def _flow_records(checkout: Checkout) -> list[ProcessRecord]:
    records = [read_record(path) for path in checkout.project.flow_processes()]
    return [record for record in records if record is not None]
