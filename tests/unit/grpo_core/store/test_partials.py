"""Work in progress: who works on it, what was spent on it, whose rows are live."""

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grpo_core.errors import ConfigError, FileUnreadableError
from grpo_core.stages.context import Timings
from grpo_core.store.files import write_json
from grpo_core.store.lake import Lake
from grpo_core.store.partials import worker
from grpo_core.store.schemas import AUDIT_RESULTS

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


def test_a_forced_start_drops_what_was_not_forced_and_keeps_what_was(tmp_path: Path) -> None:
    partial = Lake(tmp_path).partial("train", KEY)
    partial.claim("mine")
    unit = partial.unit_path("steps", 0)
    unit.parent.mkdir(parents=True)
    unit.touch()
    partial.start_forced()
    assert not unit.exists()
    unit.parent.mkdir(parents=True)
    unit.touch()
    partial.start_forced()
    assert unit.exists()
    partial.remove()
    assert list((tmp_path / "partial/train").iterdir()) == []


def test_a_unit_that_cannot_be_read_now_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = Lake(tmp_path).partial("audit", KEY)
    row = {"audit": "a", "severity": "warn", "num_rows": 1, "why": "w"}
    rows = pa.Table.from_pylist([row], schema=AUDIT_RESULTS.schema)
    partial.write("audit_results", 3, rows)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read", fail)
        with pytest.raises(FileUnreadableError, match=r"unit-000003\.parquet"):
            partial.has("audit_results", 3)
    assert partial.has("audit_results", 3)
    partial.unit_path("audit_results", 3).write_bytes(b"torn")
    assert not partial.has("audit_results", 3)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a.b", "../x", "a b", "-a", "a" * 65, "a\n"]
)
def test_names_with_separators_or_dots_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a run name"):
        Lake(tmp_path).run_directory(name)
