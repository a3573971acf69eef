"""What `grpo run` says of a run that did not complete."""

from typing import Any

import pytest
from rich.console import Console

from flows.api import FlowRun
from flows.conclusion import conclude
from flows.progress import RunProgress
from flows.request import make_request

REQUEST = make_request("full", "tiny", None, "r", None, ["ingest", "train"])


def _progress() -> RunProgress:
    """Ingest is finished, and so is the only unit of training that has begun."""
    progress = RunProgress()
    at = {"at": "2026-11-30T12:00:00+00:00"}
    done = {"state": "Computed", "seconds": 1.0, "tokens": 0, "figures": {}}
    events: list[dict[str, Any]] = [
        at | {"event": "run_started", "flow_run": "7", "stages": ["ingest", "train", "audit"]}
    ]
    for stage, label in (("ingest", "prompts"), ("train", "train/1")):
        events.append(at | {"event": "stage_finished", "stage": stage, "label": label} | done)
    progress.apply(events)
    return progress


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("\nto go on: grpo run full --run r", "grpo run full --run r"),
        ("\nhint: look\nto go on: grpo run full --run r", "grpo run full --run r"),
        ("", "grpo run full --run r --force train"),
    ],
    ids=["stopped after the last unit", "with a hint", "killed before it could tell"],
)
def test_the_command_to_go_on_is_the_flows_own(
    message: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = FlowRun("7", "r full", "FAILED", f"told to stop{message}", {})
    assert conclude(REQUEST, ended, _progress(), Console(quiet=True)) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert told.endswith(f"to go on: {command}")
