"""Runs of which a part is gone: a node, an attempt, the configuration, the directory."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_lake import KEY, publish, use
from typer.testing import CliRunner, Result

from flows.cli import app
from grpo_core.config import load_config
from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.stages.records import RunRecords
from grpo_core.stages.restore import restore_records
from grpo_core.store import Lake
from grpo_core.store.files import read_json, write_json
from grpo_core.store.maintenance import find_garbage, verify
from grpo_core.store.run_records import attempt_files


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Run `r` used two generations in two attempts, run `s` the second."""
    lake = Lake(tmp_path / "lake")
    first, second = publish(lake, 1), publish(lake, 2)
    for run, artifact in (("r", first), ("r", second), ("s", second)):
        use(lake, run, artifact)
        write_json(lake.run_directory(run) / "config.json", load_config("tiny").model_dump())
    return lake


def grpo(lake: Lake, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--lake", str(lake.root)], catch_exceptions=False)


def attempt(lake: Lake, number: int) -> Path:
    return lake.run_directory("r") / f"attempts/{number:04d}.json"


@pytest.mark.parametrize("other", [1, None, {}, {"label": "x"}])
def test_a_damaged_attempt_keeps_the_nodes_that_are_whole(lake: Lake, other: object) -> None:
    record = read_json(attempt(lake, 1))
    nodes = list(record["nodes"])
    write_json(attempt(lake, 1), {**record, "nodes": [other, *nodes]})
    (told,) = restore_records(lake, "r")
    assert "with 1 artefacts" in told
    assert read_json(attempt(lake, 1))["nodes"] == nodes
    assert read_json(attempt(lake, 2))["nodes"] != nodes
    assert find_garbage(lake) == []
    assert verify(lake).damaged == []


def test_two_damaged_attempts_keep_what_is_theirs(lake: Lake) -> None:
    nodes = []
    for number in (1, 2):
        record = read_json(attempt(lake, number))
        nodes.append(record["nodes"])
        write_json(attempt(lake, number), {**record, "nodes": [*record["nodes"], 1]})
    assert len(restore_records(lake, "r")) == 2
    assert [read_json(attempt(lake, number))["nodes"] for number in (1, 2)] == nodes


@pytest.mark.parametrize(
    ("field", "value"), [("content", None), ("phase", "1"), ("seconds", True), ("key", 7)]
)
@pytest.mark.parametrize("act", [lambda lake: lake.catalog("r"), find_garbage], ids=["run", "gc"])
def test_a_field_of_another_type_is_damage(
    lake: Lake, field: str, value: object, act: Callable[[Lake], Any]
) -> None:
    record = read_json(attempt(lake, 1))
    record["nodes"][0][field] = value
    write_json(attempt(lake, 1), record)
    with pytest.raises(ArtifactError, match=f"holds a node without valid {field}"):
        act(lake)
    assert [entry.path for entry in verify(lake).damaged] == ["runs/r/attempts/0001.json"]
    assert grpo(lake, "sql", "select 1").exit_code == 0


def test_an_attempt_missing_before_a_later_one_is_named_and_made_again(lake: Lake) -> None:
    attempt(lake, 1).unlink()
    assert [entry.path for entry in verify(lake).damaged] == ["runs/r/attempts/0001.json"]
    with pytest.raises(ArtifactError, match=r"nothing is removed: .*0001\.json is missing"):
        find_garbage(lake)
    (told,) = restore_records(lake, "r")
    assert told.startswith(f"{attempt(lake, 1)} was missing and is made again")
    assert not list(attempt(lake, 1).parent.glob("*.damaged"))
    assert verify(lake).damaged == []
    assert RunRecords(lake.run_directory("r")).begin({}, {"audit"}) == 3


def test_the_last_attempt_missing_is_made_again_before_the_next(lake: Lake) -> None:
    attempt(lake, 2).unlink()
    (told,) = restore_records(lake, "r")
    assert told.startswith(f"{attempt(lake, 2)} was missing and is made again")
    assert RunRecords(lake.run_directory("r")).begin({}, {"audit"}) == 3
    assert verify(lake).damaged == []
    assert find_garbage(lake) == []


def test_a_missing_generation_of_an_earlier_attempt_counts_as_little_as_in_the_whole_lake(
    lake: Lake,
) -> None:
    first, second = (row.content[:12] for row in lake.catalog("r").run_artifacts)
    shutil.rmtree(lake.store.key_directory("audit", KEY) / first)
    for words in ([], ["--run", "r"]):
        assert grpo(lake, "sql", "select 1", *words).stderr == ""
    shutil.rmtree(lake.store.key_directory("audit", KEY) / second)
    for words in ([], ["--run", "r"]):
        told = grpo(lake, "sql", "select 1", *words).stderr
        assert "damaged or missing artefacts are left out: 1" in told


@pytest.mark.parametrize("is_away", [False, True])
def test_a_linked_run_is_named_by_queries_and_audits(
    lake: Lake, tmp_path: Path, is_away: bool
) -> None:
    link = lake.run_directory("r")
    link.rename(tmp_path / "outside")
    link.symlink_to(tmp_path / ("away" if is_away else "outside"))
    rows = grpo(lake, "sql", "select key, path from damaged", "--format", "csv")
    assert rows.stdout.split() == ["key,path", "r,runs/r"]
    assert f"run r is left out: {link} is a symbolic link" in rows.stderr
    found = grpo(lake, "audit")
    assert found.exit_code == 1
    assert f"run r is not audited: {link} is a symbolic link" in found.stderr
    assert "run s: " in found.stdout


def test_a_run_without_configuration_is_told_apart_from_none(lake: Lake) -> None:
    path = lake.run_directory("r") / "config.json"
    path.unlink()
    (entry,) = verify(lake).damaged
    assert (entry.path, entry.hint) == ("runs/r/config.json", "run it again to renew the file")
    for command in ("audit", "report"):
        with pytest.raises(ConfigError, match=r"config\.json is missing") as error:
            grpo(lake, command, "--run", "r")
        assert error.value.hint == "run it again to renew the file"
    found = grpo(lake, "audit")
    assert found.exit_code == 1
    assert f"run r is not audited: {path} is missing" in found.stderr


def test_a_restore_that_fails_after_mending_renews_the_database(lake: Lake) -> None:
    attempt(lake, 1).write_text("{")
    (lake.run_directory("r") / "config.json").unlink()
    grpo(lake, "lake", "refresh")
    before = lake.database.stat().st_ino
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        grpo(lake, "lake", "restore", "--run", "r")
    assert json.loads(attempt(lake, 1).read_text())["nodes"] == []
    assert lake.database.stat().st_ino != before


@pytest.mark.parametrize("name", ["202501.json", "000001.json", "2025.json"])
def test_a_file_that_is_numbered_as_no_attempt_can_be_is_none(
    lake: Lake, tmp_path: Path, name: str
) -> None:
    directory = lake.run_directory("r")
    known = attempt_files(directory)
    (directory / "attempts" / name).write_text("{}")
    assert attempt_files(directory) == known
    assert verify(lake).damaged == []
    (tmp_path / "other/runs/r/attempts").mkdir(parents=True)
    (tmp_path / "other/runs/r/attempts" / name).write_text("{}")
    assert attempt_files(tmp_path / "other/runs/r") == []
    assert not Lake(tmp_path / "other").is_one()


def test_a_linked_run_behind_a_closed_directory_is_named_by_queries(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = lake.run_directory("r")
    link.rename(tmp_path / "outside")
    link.symlink_to(tmp_path / "outside")
    stat: Callable[..., os.stat_result] = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        """As for somebody else's directory of mode 0700; these tests may run as root."""
        is_link = not isinstance(path, int) and os.fspath(path) == str(link)
        if is_link and options.get("follow_symlinks", True):
            raise PermissionError(13, "Permission denied", str(link))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert lake.linked_runs() == ["r"]
    (entry,) = lake.catalog().damaged
    assert entry.path == "runs/r"
