"""What the record of a run says of flow runs whose end the server missed."""

from pathlib import Path

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
