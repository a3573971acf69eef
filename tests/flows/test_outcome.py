"""What the record of a run says of flow runs whose end the server missed."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.api import FlowRun
from flows.outcome import outcome_of
from grpo_core.stages.records import RunRecords


@pytest.mark.parametrize("damage", ["torn", "gone"])
def test_a_damaged_attempt_hides_no_other_one(tmp_path: Path, damage: str) -> None:
    records = RunRecords(tmp_path / "runs/r")
    for number in (1, 2, 3):
        records.begin({"flow_run": f"flow-{number}"}, set())
        records.finish("Completed", "")
    path = records.directory / f"attempts/000{3 if damage == 'torn' else 2}.json"
    path.write_text("{") if damage == "torn" else path.unlink()
    parameters = {"run": "r", "overrides": [f"execution.lake={tmp_path}"]}
    run = FlowRun("flow-1", "r", "RUNNING", "", parameters)
    outcome = outcome_of(run)
    assert outcome is not None
    assert outcome.state_name == "Completed"


ODD: dict[str, dict[str, Any]] = {
    "no request": {"request": None},
    "request of another form": {"request": ["flow-1"]},
    "request without its flow run": {"request": {}},
    "began at a number": {"started_at": 1767225600},
    "began at no date": {"started_at": "yesterday"},
    "began nobody knows where": {"started_at": "2026-01-01T00:00:00"},
    "stage of another release": {"state": "Failed", "error": "disk full", "nodes": ["distil"] * 2},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_attempt_is_passed_over(tmp_path: Path, odd: dict[str, Any]) -> None:
    records = RunRecords(tmp_path / "runs/r")
    for _ in range(2):
        records.begin({"flow_run": "flow-1"}, set())
        records.finish("Completed", "")
    path = records.directory / "attempts/0002.json"
    attempt = json.loads(path.read_text()) | odd
    stages = [*attempt["nodes"], "train"] if attempt["nodes"] else []
    attempt["nodes"] = [
        {"stage": stage, "label": stage, "kind": stage, "phase": 0, "key": "k", "content": "c"}
        | {"state": "Computed", "seconds": 1.0, "tokens": 0, "finished_at": "2026-01-01"}
        for stage in stages
    ]
    path.write_text(json.dumps(attempt))
    parameters = {"run": "r", "overrides": [f"execution.lake={tmp_path}"]}
    outcome = outcome_of(FlowRun("flow-1", "r", "RUNNING", "", parameters))
    assert outcome is not None
    assert outcome.state_name == "Completed"
    first = json.loads((records.directory / "attempts/0001.json").read_text())
    assert outcome.began_at.isoformat(timespec="milliseconds") == first["started_at"]
