"""Stopping, killing, sharing: what really happens to the processes, the server and the lake."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from flows.following import is_held, run_lock
from flows.processes import ProcessRecord, read_record, wait_gone

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def _server_and_runner(checkout: Checkout) -> None:
    """Both are there, whatever the test before has killed."""
    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr


def _record(checkout: Checkout, name: str) -> ProcessRecord:
    record = read_record(checkout.project.record(name))
    assert record is not None
    return record


def _plan(checkout: Checkout, run: str, *overrides: str) -> str:
    words = [word for item in (*checkout.mini, *overrides) for word in ("--set", item)]
    planned = checkout.grpo("plan", "--run", run, *words)
    assert planned.returncode == 0, planned.stderr
    return planned.stdout


def test_grpo_stop_finishes_the_unit_saves_it_and_the_next_run_goes_on(checkout: Checkout) -> None:
    with checkout.run_in_training("halted", checkout.long) as (process, pid):
        family = checkout.family(pid)
        stopped = checkout.grpo("stop", "--run", "halted")
        output, _ = process.communicate(timeout=400)
    assert stopped.returncode == 0, stopped.stderr
    assert process.returncode == 1
    assert "the run was stopped: train/1 after" in output
    assert wait_gone(family, 60)
    ended = checkout.flow_run("halted")
    assert (ended.state_type, ended.state_name) == ("CANCELLED", "Stopped")
    assert "to go on: grpo run full --run halted" in ended.message
    steps = int(ended.message.split("train/1 after ")[1].split()[0])

    with checkout.run_in_training("halted", checkout.long) as (process, _):
        assert checkout.grpo("stop", "--run", "halted", "--now").returncode == 0
        process.communicate(timeout=400)
    assert f"continued after step {steps}" in checkout.notes("halted")
    assert checkout.latest_attempt("halted")["state"] == "Stopped"


def test_watch_tells_of_the_attempt_that_worked_in_this_lake(checkout: Checkout) -> None:
    with checkout.run_in_training("watched", checkout.long) as (process, _):
        refused = checkout.grpo("run", "ingest", "--run", "watched")
        assert "is in use by" in refused.stderr
        assert checkout.grpo("stop", "--run", "watched").returncode == 0
        process.communicate(timeout=400)
    elsewhere = f"execution.lake={checkout.project.root / 'other lake'}"
    absent = ("--set", elsewhere, "--set", "prompts.source=/nowhere.jsonl")
    failed = checkout.grpo("run", "ingest", "--run", "watched", *absent)
    assert "/nowhere.jsonl" in failed.stderr
    watched = checkout.grpo("watch", "--run", "watched")
    assert "Stopped: train/1 after" in watched.stderr
    assert "failed" not in watched.stderr


def test_nobody_to_stop_is_said(checkout: Checkout) -> None:
    done = checkout.grpo("stop", "--run", "nobody")
    assert done.returncode == 1
    assert "nobody works on run 'nobody'" in done.stderr


def test_a_killed_runner_takes_its_flow_along_and_the_run_is_crashed(checkout: Checkout) -> None:
    with checkout.run_in_training("orphan", checkout.long) as (process, pid):
        family = checkout.family(pid)
        os.kill(_record(checkout, "runner").pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 1
    assert "the run crashed: the runner was killed" in output
    assert wait_gone(family, 60)
    assert checkout.flow_run("orphan").state_type == "CRASHED"
    assert checkout.latest_attempt("orphan")["state"] == "Stopped"
    assert "PARTIAL" in _plan(checkout, "orphan", checkout.long)


def test_runner_and_flow_killed_at_once_are_found_by_the_next_start(checkout: Checkout) -> None:
    with checkout.run_in_training("lost", checkout.long) as (process, pid):
        family = checkout.family(pid)
        process.send_signal(signal.SIGKILL)  # nobody is left to tell the server
        for victim in (_record(checkout, "runner").pid, *(member.pid for member in family)):
            os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=400)
    assert checkout.flow_run("lost").state_type == "RUNNING"
    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr
    assert "'lost full' crashed: its process is gone" in up.stderr
    assert checkout.flow_run("lost").state_type == "CRASHED"
    assert "PARTIAL" in _plan(checkout, "lost", checkout.long)


def test_a_server_that_dies_comes_back_and_the_run_completes(checkout: Checkout) -> None:
    before = _record(checkout, "server")
    with checkout.run_in_training("steady", "train.phases.0.max_steps=30", "seed=3") as (
        process,
        _,
    ):
        os.kill(before.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    after = _record(checkout, "server")
    assert after.pid != before.pid
    assert after.address == before.address
    assert checkout.wait_final("steady", 180).state_type == "COMPLETED"


def test_two_runs_at_once_share_the_work_and_the_waiter_says_for_whom(checkout: Checkout) -> None:
    with (
        checkout.run_in_training("first", checkout.long, "train.seed=11") as (one, _),
        checkout.start_run("second", checkout.long, "train.seed=11") as two,
    ):
        checkout.wait_event("second", "stage_waiting")
        assert checkout.grpo("stop", "--run", "first").returncode == 0
        one.communicate(timeout=400)
        checkout.wait_event("second", "progress")
        assert checkout.grpo("stop", "--run", "second").returncode == 0
        two.communicate(timeout=400)
    waiting = checkout.wait_event("second", "stage_waiting")
    assert waiting["label"] == "train/1"
    assert "run 'first': train/1 (pid " in waiting["holder"]
    assert any(note.startswith("continued after step") for note in checkout.notes("second"))
    states = {n["label"]: n["state"] for n in checkout.latest_attempt("second")["nodes"]}
    assert set(states.values()) == {"Reused"}


def test_what_two_runs_need_is_computed_once_and_the_waiter_reuses_it(checkout: Checkout) -> None:
    with (
        checkout.run_in_training("earlier", "train.seed=12", is_frozen=True) as (one, pid),
        checkout.start_run("later", "train.seed=12") as two,
    ):  # however fast the machine, the other finds it at work
        try:
            waiting = checkout.wait_event("later", "stage_waiting")
        finally:
            os.kill(pid, signal.SIGCONT)
        outputs = [process.communicate(timeout=400)[0] for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), outputs
    assert (waiting["label"], waiting["holder"][:22]) == ("train/1", "run 'earlier': train/1")
    assert "train/1: waiting for run 'earlier'" in outputs[1]
    earlier, later = (
        {node["label"]: node for node in checkout.latest_attempt(run)["nodes"]}
        for run in ("earlier", "later")
    )
    assert (earlier["train/1"]["state"], later["train/1"]["state"]) == ("Computed", "Reused")
    for label, node in earlier.items():
        assert "Reused" in (node["state"], later[label]["state"]), label
        assert node["content"] == later[label]["content"], label


def test_cancelling_in_prefect_ends_the_run_and_its_processes(checkout: Checkout) -> None:
    with checkout.run_in_training("cancelled", checkout.long) as (process, pid):
        family = checkout.family(pid)
        flow_run = checkout.latest_attempt("cancelled")["request"]["flow_run"]
        assert checkout.prefect("flow-run", "cancel", flow_run).returncode == 0
        output, _ = process.communicate(timeout=400)
    assert "the run was stopped" in output
    assert wait_gone(family, 60)
    assert not is_held(run_lock(checkout.lake / "runs" / "cancelled"))
    assert checkout.wait_final("cancelled", 180).state_type == "CANCELLED"


def test_sigterm_ends_a_flow_and_its_processes_and_the_run_is_crashed(checkout: Checkout) -> None:
    with checkout.run_in_training("terminated", checkout.long) as (process, pid):
        family = checkout.family(pid)
        os.kill(pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=400)
    assert "the run crashed" in output
    assert wait_gone(family, 60)
    assert checkout.flow_run("terminated").state_type == "CRASHED"
    assert checkout.latest_attempt("terminated")["state"] == "Stopped"


def test_grpo_down_cancels_what_runs(checkout: Checkout) -> None:
    with checkout.run_in_training("downed", checkout.long) as (process, pid):
        family = checkout.family(pid)
        down = checkout.grpo("down")
        output, _ = process.communicate(timeout=400)
    assert down.returncode == 0, down.stderr
    assert "'downed full' is cancelled" in down.stderr
    assert "was killed" not in down.stderr
    assert process.returncode == 1, output
    assert wait_gone(family, 60)
    up = checkout.grpo("up")
    assert up.returncode == 0, up.stderr
    assert checkout.flow_run("downed").state_type == "CANCELLED"
    assert checkout.latest_attempt("downed")["state"] == "Stopped"


def test_the_crash_automation_is_made_once(checkout: Checkout) -> None:
    from flows.automations import CRASH_AUTOMATION

    client = checkout.client
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
