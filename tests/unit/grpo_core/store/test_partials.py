"""Work in progress: who works on it, what was spent on it, whose rows are live."""

from pathlib import Path

import pytest

from grpo_core.errors import ConfigError
from grpo_core.stages.context import Timings
from grpo_core.store.files import write_json
from grpo_core.store.lake import Lake
from grpo_core.store.partials import worker

KEY = "a" * 64


def live_unit(lake: Lake, run: str, key: str) -> Path:
    partial = lake.partial("train", key)
    partial.claim(run)
    path = partial.unit_path("steps", 0)
    path.parent.mkdir(parents=True)
    path.touch()
    write_json(lake.run_directory(run) / "run.json", {"attempt": 0, "nodes": {}})
    return path


def test_a_run_sees_its_own_live_rows_and_the_lake_all(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    mine, other = live_unit(lake, "mine", KEY), live_unit(lake, "other", "b" * 64)
    assert lake.catalog("mine").live_files["steps"] == (mine,)
    assert set(lake.catalog().live_files["steps"]) == {mine, other}


def test_what_a_killed_attempt_spent_is_counted_once(tmp_path: Path) -> None:
    partial = Lake(tmp_path).partial("train", KEY)
    killed = Timings(partial)
    with killed.part("train") as timed:
        timed.tokens = 5
    resumed = Timings(partial)
    with resumed.part("train") as timed:
        timed.tokens = 7
    assert not partial.exists()
    (row,) = resumed.table().to_pylist()
    assert (row["part"], row["tokens"], resumed.total_tokens) == ("train", 12, 7)
    assert row["seconds"] >= killed.seconds["train"]


def test_nothing_is_left_when_work_is_done(tmp_path: Path) -> None:
    partial = Lake(tmp_path).partial("train", KEY)
    partial.claim("mine")
    assert worker(partial.directory) == "mine"
    partial.write_timings({"train": 1.0}, {"train": 1})
    partial.remove()
    assert list((tmp_path / "partial/train").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a.b", "../x", "a b", "-a", "a" * 65, "a\n"]
)
def test_names_with_separators_or_dots_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a run name"):
        Lake(tmp_path).run_directory(name)
