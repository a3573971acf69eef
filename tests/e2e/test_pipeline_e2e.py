"""The product as a user meets it: real server, real runner, real stages, real kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from flows.automations import SILENT_SECONDS
from flows.following import is_held, run_lock
from flows.processes import descendants, environments, read_record, wait_gone
from flows.project import FLOW_MARK
from grpo_core.types import StageName

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ALL = {stage.value for stage in StageName}


@pytest.fixture(scope="module")
def checkout(checkout: Checkout) -> Checkout:
    """The session's, with a lake in which nothing is computed yet."""
    return checkout.in_lake("pipeline lake")


def _watch(
    checkout: Checkout, deployment: str, **parameters: Any
) -> subprocess.CompletedProcess[str]:
    words = [
        word for name, value in parameters.items() for word in ("-p", f"{name}={json.dumps(value)}")
    ]
    return checkout.prefect("deployment", "run", deployment, "--watch", "--tag", "mine", *words)


def _states(attempt: dict[str, Any]) -> set[str]:
    return {node["state"] for node in attempt["nodes"]}


@pytest.fixture(scope="module")
def first_run(checkout: Checkout) -> dict[str, Any]:
    done = _watch(checkout, "grpo/full", run="demo", overrides=list(checkout.mini))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "Finished in state Computed" in done.stdout
    return checkout.latest_attempt("demo")


def test_the_deployment_as_typed_runs_every_stage(first_run: dict[str, Any]) -> None:
    assert first_run["state"] == "Completed"
    assert {node["stage"] for node in first_run["nodes"]} == ALL
    computed = {node["stage"] for node in first_run["nodes"] if node["state"] == "Computed"}
    assert computed == ALL


def test_a_run_started_by_prefect_has_our_tags_besides_its_own(
    checkout: Checkout, first_run: dict[str, Any]
) -> None:
    flow_run = checkout.client.read_flow_run(first_run["request"]["flow_run"])
    assert sorted(flow_run.tags) == ["grpo", "mine", "preset:tiny", "run:demo"]


def test_a_second_run_reuses_everything_and_says_so(
    checkout: Checkout, first_run: dict[str, Any]
) -> None:
    overrides = [word for override in checkout.mini for word in ("--set", override)]
    done = checkout.grpo("run", "full", "--run", "demo", *overrides)
    assert done.returncode == 0, done.stderr
    again = checkout.latest_attempt("demo")
    assert again["attempt"] == first_run["attempt"] + 1
    assert _states(again) == {"Reused"}
    assert sum(node["tokens"] for node in again["nodes"]) == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    for name in (ALL - {"train"}) | {"train/1", "train/2", "train/3"}:
        assert any(row[:2] == [name, "Reused"] and row[3] == "0" for row in rows), done.stdout
    assert "report.html" in done.stdout
    assert (checkout.lake / "runs" / "demo" / "report.html").is_file()


@pytest.mark.parametrize(
    ("parameter", "field"),
    [
        ('preset="tinny"', "preset"),
        ('run="../outside"', "run"),
        ('overrides=["trian.group_size=4"]', "overrides"),
        ('force=["everything"]', "force"),
        ("prset=1", "prset"),
    ],
)
def test_a_bad_parameter_is_refused_at_creation(
    checkout: Checkout, parameter: str, field: str
) -> None:
    done = checkout.prefect("deployment", "run", "grpo/full", "-p", parameter)
    assert done.returncode == 1
    assert field in done.stdout + done.stderr
    assert "Created flow run" not in done.stdout


@pytest.mark.usefixtures("first_run")
def test_a_stage_without_inputs_names_the_stage_to_run_first(checkout: Checkout) -> None:
    done = _watch(checkout, "grpo/evaluate", run="early", overrides=[*checkout.mini, "seed=99"])
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "run stage prefilter first: grpo run prefilter" in text
    assert "Traceback" not in text


def test_a_first_attempt_that_fails_before_it_begins_says_why(checkout: Checkout) -> None:
    done = _watch(checkout, "grpo/full", run="stillborn", config_file="/nowhere/mine.toml")
    assert done.returncode == 1
    watched = checkout.grpo("watch", "--run", "stillborn")
    assert watched.returncode == 1
    assert "'stillborn full' has left no record" in watched.stderr
    assert "/nowhere/mine.toml" in watched.stderr

    no_lake = checkout.project.root / "prefect.toml"
    followed = checkout.grpo("run", "--run", "stillborn", "--set", f"execution.lake={no_lake}")
    assert followed.returncode == 1
    assert "the run failed: " in followed.stderr
    assert f"{no_lake}/" in followed.stderr


def test_a_bad_setting_fails_before_anything_is_triggered(checkout: Checkout) -> None:
    done = checkout.grpo("run", "--set", "train.group_size=1")
    assert done.returncode == 1
    assert "train.group_size" in done.stderr
    assert "flow run" not in done.stderr


def test_killed_in_the_middle_of_training_it_continues_to_the_same_result(
    checkout: Checkout, first_run: dict[str, Any]
) -> None:
    lake = checkout.project.root / "killed lake"
    override = f"execution.lake={lake}"
    with checkout.run_in_training("demo", override, lake=lake, is_frozen=True) as (process, pid):
        os.kill(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 1, output
    assert "the run crashed" in output
    assert not is_held(run_lock(lake / "runs" / "demo"))

    words = [word for item in (*checkout.mini, override) for word in ("--set", item)]
    rerun = checkout.grpo("run", "full", "--run", "demo", *words)
    assert rerun.returncode == 0, rerun.stderr
    attempt = checkout.latest_attempt("demo", lake)
    states = {node["label"]: node["state"] for node in attempt["nodes"]}
    assert states["samples"] == "Reused"
    assert states["train/1"] == "Computed"
    undisturbed = {node["label"]: node["content"] for node in first_run["nodes"]}
    assert {node["label"]: node["content"] for node in attempt["nodes"]} == undisturbed


def test_when_nobody_is_left_to_tell_the_server_marks_the_run_as_crashed_by_itself(
    checkout: Checkout, first_run: dict[str, Any]
) -> None:
    lake = checkout.project.root / "silent lake"
    override = f"execution.lake={lake}"
    runner = read_record(checkout.project.record("runner"))
    assert runner is not None
    with checkout.run_in_training("demo", override, lake=lake, is_frozen=True) as (process, pid):
        children = descendants(pid)
        guardians = [p for p, mark in environments(FLOW_MARK) if mark == "guardian"]
        (guardian,) = [p for p in guardians if p in children]
        for victim in (process.pid, guardian.pid, runner.pid, pid):
            os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=400)
    assert checkout.flow_run("demo", lake).state_type == "RUNNING"
    ended = checkout.wait_final("demo", 240, lake)  # three heartbeats of 30 s, and some seconds
    assert ended.state_type == "CRASHED"
    assert f"nothing was heard of the run for {SILENT_SECONDS} s" in ended.message

    words = [word for item in (*checkout.mini, override) for word in ("--set", item)]
    rerun = checkout.grpo("run", "full", "--run", "demo", *words)
    assert rerun.returncode == 0, rerun.stderr
    assert wait_gone(children, 0)
    undisturbed = {node["label"]: node["content"] for node in first_run["nodes"]}
    attempt = checkout.latest_attempt("demo", lake)
    assert {node["label"]: node["content"] for node in attempt["nodes"]} == undisturbed
    assert {node["label"]: node["state"] for node in attempt["nodes"]}["samples"] == "Reused"


@pytest.mark.usefixtures("first_run")
def test_ctrl_c_stops_the_run_and_it_can_go_on(checkout: Checkout) -> None:
    with checkout.run_in_training("stopped", checkout.long, "train.seed=5") as (process, pid):
        family = checkout.family(pid)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 1, output
    assert "the run was stopped" in output
    assert wait_gone(family, 60)
    assert checkout.latest_attempt("stopped")["state"] == "Stopped"


def test_a_run_forks_from_the_state_of_another(
    checkout: Checkout, first_run: dict[str, Any]
) -> None:
    words = [word for item in checkout.mini for word in ("--set", item)]
    rate = ("--set", "train.learning_rate=1e-5")
    done = checkout.grpo("run", "train", "--run", "child", "--from", "demo:1", *words, *rate)
    assert done.returncode == 0, done.stdout + done.stderr
    parent = {node["label"]: node for node in first_run["nodes"]}["train/1"]
    child = checkout.latest_attempt("child")
    assert child["request"]["fork"]["directory"] == parent["path"]
    assert {n["label"] for n in child["nodes"] if n["state"] == "Computed"} >= {"train/2"}


@pytest.mark.usefixtures("first_run")
def test_a_stopped_runner_is_started_again(checkout: Checkout) -> None:
    record = json.loads(checkout.project.record("runner").read_text(encoding="utf-8"))
    os.kill(record["pid"], signal.SIGKILL)
    overrides = [word for override in checkout.mini for word in ("--set", override)]
    done = checkout.grpo("run", "ingest", "--run", "demo", *overrides)
    assert done.returncode == 0, done.stderr
    assert "starting the runner" in done.stderr


def test_quick_questions_of_the_finished_lake(
    checkout: Checkout, first_run: dict[str, Any]
) -> None:
    plan = checkout.grpo("plan", "--run", "demo", *(w for o in checkout.mini for w in ("--set", o)))
    assert plan.returncode == 0, plan.stderr
    assert "MISS" not in plan.stdout
    assert plan.stdout.count("HIT") == len(first_run["nodes"])
    status = checkout.grpo("status")
    assert status.returncode == 0
    assert "grpo/ref-logp" in status.stdout
