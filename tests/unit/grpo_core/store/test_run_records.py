"""Records of runs that are torn or gone: named, made good where the attempts know, never fatal."""

import hashlib
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from audited_lake import KEY, publish, use
from fault_walk import run_until
from typer.testing import CliRunner, Result

from flows.cli import app
from grpo_core.config import load_config
from grpo_core.errors import ArtifactError, ConfigError, RunBusyError
from grpo_core.stages import RunSession
from grpo_core.stages.records import RunRecords
from grpo_core.stages.restore import restore_records, restore_rows
from grpo_core.store import Lake
from grpo_core.store.archives import EXPORT, pack
from grpo_core.store.exchange import export_run, import_run
from grpo_core.store.files import read_json, write_json
from grpo_core.store.locks import hold_or_refuse
from grpo_core.store.maintenance import find_garbage, verify
from grpo_core.store.progress import iter_run_events
from grpo_core.store.run_mending import mend_attempts

TORN = ["", "{", "[]", "null", '{"attempt": 1}', '{"attempt": 1, "nodes": [1]}']


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Run `r` used two generations in two attempts, run `s` the second."""
    lake = Lake(tmp_path / "lake")
    first, second = publish(lake, 1), publish(lake, 2)
    use(lake, "r", first)
    use(lake, "r", second)
    use(lake, "s", second)
    return lake


def grpo(lake: Lake, *words: str) -> str:
    return grpo_apart(lake, *words).output


def grpo_apart(lake: Lake, *words: str) -> Result:
    """What a command prints, and where; standard error is made anew for each test."""
    return CliRunner().invoke(app, [*words, "--lake", str(lake.root)], catch_exceptions=False)


@pytest.mark.parametrize("text", [*TORN, None])
def test_without_run_json_the_attempts_tell_what_a_run_uses(lake: Lake, text: str | None) -> None:
    path = lake.run_directory("r") / "run.json"
    pins = dict(RunRecords(path.parent).pins())
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert lake.run_names() == ["r", "s"]
    assert find_garbage(lake) == []
    (entry,) = verify(lake).damaged
    assert str(path) in entry.reason
    assert "runs/r/run.json" in grpo(lake, "lake", "verify")
    assert [row.attempt for row in lake.catalog("r").run_artifacts] == [1, 2]
    assert RunRecords(path.parent).pins() == pins
    before = (path.parent / "attempts/0001.json").read_bytes()
    assert RunRecords(path.parent).begin({}, {"audit"}) == 3
    assert (path.parent / "attempts/0001.json").read_bytes() == before
    assert RunRecords(path.parent).pins() == pins
    assert verify(lake).damaged == []


def test_an_attempt_that_run_json_does_not_know_is_not_overwritten(lake: Lake) -> None:
    directory = lake.run_directory("r")
    old = (directory / "run.json").read_text().replace('"attempt": 2', '"attempt": 1')
    (directory / "run.json").write_text(old)
    assert RunRecords(directory).begin({}, {"audit"}) == 3


@pytest.mark.parametrize("text", TORN)
@pytest.mark.parametrize("act", [lambda lake: lake.catalog("r"), find_garbage], ids=["run", "gc"])
def test_a_torn_attempt_is_named(lake: Lake, text: str, act: Callable[[Lake], object]) -> None:
    path = lake.run_directory("r") / "attempts/0001.json"
    path.write_text(text)
    with pytest.raises(ArtifactError, match=str(path)) as error:
        act(lake)
    assert "grpo lake restore --run r" in error.value.hint
    (entry,) = verify(lake).damaged
    assert entry.path == "runs/r/attempts/0001.json"
    assert "runs/r/attempts/0001.json" in grpo(lake, "lake", "verify")


def test_queries_of_a_lake_go_on_without_a_run_whose_attempt_is_torn(lake: Lake) -> None:
    (lake.run_directory("r") / "attempts/0001.json").write_text("{")
    rows = grpo_apart(lake, "sql", "select distinct run from run_artifacts", "--format", "csv")
    assert rows.exit_code == 0
    assert rows.stdout.split() == ["run", "s"]
    assert "run r is left out" in rows.stderr
    assert "attempts/0001.json" in rows.stderr
    assert "grpo lake restore --run r" in rows.stderr
    named = grpo_apart(lake, "sql", "select key, path from damaged", "--format", "csv")
    assert named.stdout.split() == ["key,path", "r,runs/r"]
    assert grpo_apart(lake, "sql", "--run", "s", "select 1").stderr == ""
    assert "run r is left out" in grpo_apart(lake, "lake", "refresh").stderr


def test_queries_of_a_lake_say_that_an_artefact_is_missing(lake: Lake) -> None:
    _, pinned = lake.catalog("r").run_artifacts
    shutil.rmtree(lake.store.key_directory("audit", KEY) / pinned.content[:12])
    found = grpo_apart(lake, "sql", "select count(*) as n from damaged", "--format", "csv")
    assert found.stdout == "n\n1\n"
    assert "damaged or missing artefacts are left out: 1" in found.stderr


@pytest.mark.parametrize("torn", ["attempts/0001.json", "config.json"])
def test_audits_of_a_lake_go_on_after_a_run_that_cannot_be_audited(lake: Lake, torn: str) -> None:
    for run in ("r", "s"):
        write_json(lake.run_directory(run) / "config.json", load_config("tiny").model_dump())
    RunRecords(lake.run_directory("t")).begin({}, set())
    write_json(lake.run_directory("t") / "config.json", load_config("tiny").model_dump())
    whole = grpo_apart(lake, "audit")
    assert (whole.exit_code, whole.stderr) == (0, "run 't' has made nothing yet\n")
    (lake.run_directory("r") / torn).write_text("{")
    found = grpo_apart(lake, "audit")
    assert found.exit_code == 1
    assert "run r is not audited" in found.stderr
    assert torn in found.stderr
    assert "run s: " in found.stdout


def test_restore_makes_a_torn_attempt_again_from_what_run_json_says(lake: Lake) -> None:
    write_json(lake.run_directory("r") / "config.json", load_config("tiny").model_dump())
    path = lake.run_directory("r") / "attempts/0002.json"
    nodes = read_json(path)["nodes"]
    path.write_text("{")
    done = grpo_apart(lake, "lake", "restore", "--run", "r")
    assert done.exit_code == 0
    assert f"{path} was damaged and is made again from run.json with 1 artefacts" in done.stdout
    assert read_json(path)["nodes"] == nodes
    assert path.with_name("0002.json.damaged").read_text() == "{"
    assert [row.attempt for row in lake.catalog("r").run_artifacts] == [1, 2]
    assert verify(lake).damaged == []
    assert find_garbage(lake) == []


def test_what_only_a_torn_attempt_used_is_garbage_once_it_is_mended(lake: Lake) -> None:
    first, kept = (row.content[:12] for row in lake.catalog("r").run_artifacts)
    (lake.run_directory("r") / "attempts/0001.json").write_text("{")
    restore_records(lake, "r")
    assert [item.path.name for item in find_garbage(lake)] == [first]
    assert [row.content[:12] for row in lake.catalog("r").run_artifacts] == [kept]


@pytest.mark.parametrize("text", TORN)
def test_the_next_attempt_mends_a_torn_one_and_says_so(lake: Lake, text: str) -> None:
    path = lake.run_directory("r") / "attempts/0002.json"
    nodes = read_json(path)["nodes"]
    path.write_text(text)
    with RunSession.open(load_config("tiny"), root=lake.root, run="r") as session:
        assert session.attempt == 3
    assert read_json(path)["nodes"] == nodes
    notes = [event for event in iter_run_events(session.progress.path) if event["event"] == "note"]
    assert f"{path} was damaged" in notes[0]["text"]
    assert f"{path} was damaged" in session.log.read_text()


def test_a_run_whose_run_json_is_torn_too_is_not_mended(lake: Lake) -> None:
    path = lake.run_directory("r") / "attempts/0002.json"
    path.write_text("{")
    (lake.run_directory("r") / "run.json").write_text("{")
    with pytest.raises(ArtifactError, match="are both damaged"):
        restore_records(lake, "r")
    assert path.read_text() == "{"


def test_a_mending_that_is_killed_loses_nothing(lake: Lake, tmp_path: Path) -> None:
    path = lake.run_directory("r") / "attempts/0002.json"
    nodes = read_json(path)["nodes"]
    for operation in range(40):
        path.write_text("{")
        was_killed = run_until(operation, tmp_path, lambda: mend_attempts(path.parents[1]))
        mend_attempts(path.parents[1])
        assert read_json(path)["nodes"] == nodes
        if not was_killed:
            return
    raise AssertionError("the mending never finished")


def test_a_torn_run_without_attempts_is_named_and_the_others_are_verified(lake: Lake) -> None:
    path = lake.run_directory("r") / "run.json"
    for attempt in (path.parent / "attempts").iterdir():
        attempt.unlink()
    path.write_text("{")
    missing = lake.store.generation(
        "audit", KEY, read_json(lake.root / "runs/s/run.json")["nodes"]["audit"]["content"]
    )
    missing.files("audit_results")[0].unlink()
    found = [entry.reason for entry in verify(lake).damaged]
    assert len(found) == 2
    assert any(str(path) in reason for reason in found)
    with pytest.raises(ArtifactError, match=r"run\.json"):
        find_garbage(lake)


@pytest.mark.parametrize("text", [*TORN[:4], None])
def test_a_torn_configuration_of_a_run_is_named(lake: Lake, text: str | None) -> None:
    directory = lake.run_directory("r")
    if text is None:
        (directory / "config.json").unlink()
    else:
        (directory / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"runs/r/config\.json is (missing|damaged)"):
        restore_rows(lake, "r")


@pytest.mark.parametrize("text", TORN[:4])
def test_torn_timings_of_work_in_progress_count_nothing(lake: Lake, text: str) -> None:
    partial = lake.partial("train", KEY)
    partial.write_timings({"train": 1.0}, {"train": 1})
    (partial.directory / "timings.json").write_text(text)
    assert partial.read_timings() == ({}, {})


@pytest.mark.parametrize("text", TORN[:4])
def test_a_torn_configuration_is_verified_as_damaged_and_not_exported(
    lake: Lake, tmp_path: Path, text: str
) -> None:
    path = lake.run_directory("r") / "config.json"
    path.write_text(text)
    (entry,) = verify(lake).damaged
    assert entry.path == "runs/r/config.json"
    assert "run it again" in entry.hint
    with pytest.raises(ArtifactError, match=str(path)):
        export_run(lake, "r", tmp_path / "r.tar")


@pytest.mark.parametrize("is_allowed", [False, True])
@pytest.mark.parametrize("text", TORN[:2])
def test_an_archive_with_a_torn_configuration_is_refused(
    lake: Lake, tmp_path: Path, text: str, is_allowed: bool
) -> None:
    path = lake.run_directory("r") / "config.json"
    path.write_text("{}")
    export_run(lake, "r", tmp_path / "r.tar")
    with tarfile.open(tmp_path / "r.tar") as archive:
        archive.extractall(tmp_path / "files", filter="data")
    (tmp_path / "files/runs/r/config.json").write_text(text)
    record = read_json(tmp_path / "files" / EXPORT)
    digest = hashlib.sha256(text.encode()).hexdigest()
    record["files"]["runs/r/config.json"] = {"bytes": len(text), "sha256": digest}
    write_json(tmp_path / "files" / EXPORT, record)
    names = [EXPORT, *record["files"]]
    pack({name: tmp_path / "files" / name for name in names}, tmp_path / "torn.tar")
    other = Lake(tmp_path / "other")
    with pytest.raises(ArtifactError, match=r"config\.json"):
        import_run(other, tmp_path / "torn.tar", allow_code=is_allowed)
    assert other.run_names() == []


def test_a_restore_while_the_run_is_at_work_is_refused_only_where_records_are_torn(
    lake: Lake,
) -> None:
    path = lake.run_directory("r") / "attempts/0001.json"
    with hold_or_refuse(lake.lock_path("run-r"), "run 'r'", what="run name 'r'"):
        assert restore_records(lake, "r") == []
        path.write_text("{")
        with pytest.raises(RunBusyError):
            restore_records(lake, "r")
    assert path.read_text() == "{"
