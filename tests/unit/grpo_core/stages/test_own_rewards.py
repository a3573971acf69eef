"""Runs with reward functions of the user's: verdicts, training and evaluation use them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from grpo_core.errors import ConfigError
from grpo_core.store.lake import Lake
from grpo_core.store.warehouse import Warehouse
from grpo_core.types import StageName

pytestmark = pytest.mark.slow

Run = Callable[..., dict[str, Any]]
CLOSENESS = """
import re

def closeness(completions, problems):
    numbers = [re.findall(r"-?\\d+", text) for text in completions]
    return [
        1 / (1 + abs(int(found[-1]) - int(problem["gold"]))) if found else 0.0
        for found, problem in zip(numbers, problems)
    ]
"""


def test_every_stage_grades_by_the_configured_function(tmp_path: Path, run_mini: Run) -> None:
    source = tmp_path / "rewards.py"
    source.write_text(CLOSENESS)
    own = (f"reward.function={source}:closeness", "reward.pass_threshold=0.9")
    lake = tmp_path / "lake"
    first = run_mini(lake, *own)
    assert {node.state for node in first.values()} == {"Computed"}
    with Warehouse(Lake(lake).catalog("mini")) as warehouse:
        for view in ("run_verdicts", "run_rollouts", "run_eval_verdicts"):
            rows = warehouse.query(
                f"select verifier, label, reward_raw, reason from {view} where reward_raw > 0"
            ).dicts()
            assert {row["verifier"] for row in rows} == {own[0].partition("=")[2]}
            assert {row["reward_raw"] >= 0.9 for row in rows if row["label"] == "correct"} == {True}
            assert any(0 < row["reward_raw"] < 0.9 for row in rows), view
        sources = warehouse.query("select * from rewards_by_source").dicts()
    assert {row["stage"] for row in sources} == {"prefilter", "train", "evaluate"}
    assert all(0 <= row["pass_rate"] <= row["reward_raw_mean"] <= 1 for row in sources)
    again = run_mini(lake, *own)
    assert {node.state for node in again.values()} == {"Reused"}
    source.write_text(CLOSENESS.replace("0.0", "0.01"))
    changed = {label for label, n in run_mini(lake, *own).items() if n.state == "Computed"}
    assert {"verdicts", "train/1", "eval_verdicts/base"} <= changed
    assert not changed & {"prompts", "samples", "eval_samples/base"}


SURE = """
from dataclasses import replace
from grpo_core.rewards import grade

def sure(completion, problem):
    verdict = grade(completion, problem["gold"])
    return replace(verdict, confidence=0.25 if verdict.extracted is None else 0.75)
"""


def test_confidence_and_seconds_are_stored_with_every_sample(tmp_path: Path, run_mini: Run) -> None:
    source = tmp_path / "rewards.py"
    source.write_text(SURE)
    stages = (StageName.INGEST, StageName.PREFILTER)
    run_mini(tmp_path / "lake", f"reward.function={source}:sure", stages=stages)
    with Warehouse(Lake(tmp_path / "lake").catalog("mini")) as warehouse:
        rows = warehouse.query(
            "select confidence, extracted, grading_seconds, verifier_version from run_verdicts"
        ).dicts()
    assert {(row["extracted"] is None, row["confidence"]) for row in rows} == {
        (True, 0.25),
        (False, 0.75),
    }
    assert all(row["grading_seconds"] > 0 for row in rows)


def test_a_broken_reward_stops_before_anything_is_sampled(tmp_path: Path, run_mini: Run) -> None:
    source = tmp_path / "rewards.py"
    source.write_text("def reward(completion, problem):\n    return float('7' in completion)\n")
    with pytest.raises(ConfigError, match="pays"):
        run_mini(tmp_path / "lake", f"reward.function={source}:reward")
    assert not list((tmp_path / "lake").rglob("part-*samples*"))
    source.write_text("def reward(completion, problem):\n    raise KeyError('score')\n")
    stages = (StageName.INGEST, StageName.PREFILTER)
    with pytest.raises(ConfigError, match="always fails"):
        run_mini(tmp_path / "lake", f"reward.function={source}:reward", stages=stages)


def test_regrading_a_finished_run_changes_nothing(lake_copy: Path) -> None:
    before = {path: path.read_bytes() for path in lake_copy.rglob("*") if path.is_file()}
    command = ["regrade", "--run", "mini", "--lake", str(lake_copy), "--format", "json"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    found = json.loads(done.output)
    assert found["changes"] == found["band_changes"] == []
    assert all(row["label_before"] == row["label_after"] for row in found["confusion"])
    assert {path: path.read_bytes() for path in lake_copy.rglob("*") if path.is_file()} == before
    strict = ["regrade", "--run", "mini", "--lake", str(lake_copy)]
    done = CliRunner().invoke(app, [*strict, "--set", "reward.verifier.fallback=none"])
    assert "changed completions" in done.output
