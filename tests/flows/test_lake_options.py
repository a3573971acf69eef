"""What people name on the command line that is not there, or is something else."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.commands.options import whole_file
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.store import Lake

READERS = [
    ("lake", "verify"),
    ("lake", "gc"),
    ("lake", "gc", "--remove"),
    ("lake", "compact"),
    ("lake", "refresh"),
    ("lake", "restore", "--run", "r"),
    ("lake", "export", "--run", "r", "r.tar"),
    ("sql", "select 1"),
    ("audit",),
    ("report", "--run", "r"),
    ("regrade", "--run", "r"),
]


def grpo(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def refused(*words: str) -> str:
    error = grpo(*words).exception
    assert isinstance(error, ConfigError), error
    return error.message


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_lake_that_is_not_there_is_refused_and_not_made(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    place = tmp_path / "no lake"
    assert refused(*words, "--lake", str(place)) == f"--lake: there is no {place}"
    assert not place.exists()


@pytest.mark.parametrize("words", [*READERS, ("lake", "import", "r.tar")], ids=" ".join)
def test_what_is_no_lake_is_refused_and_left_as_it_is(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        assert refused(*words, "--lake", str(place)) == f"{place} is no lake"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_directory_is_an_empty_lake(tmp_path: Path) -> None:
    for words in READERS[:5]:
        assert grpo(*words, "--lake", str(tmp_path)).exit_code == 0


def test_an_archive_that_is_not_there_is_named_and_no_lake_made(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    command = ("lake", "import", "--lake", str(place))
    assert refused(*command, str(tmp_path / "r.tar")) == f"{tmp_path / 'r.tar'} does not exist"
    assert refused(*command, str(tmp_path)) == f"{tmp_path} is a directory"
    assert not place.exists()


def write_half(path: Path) -> None:
    with whole_file(path) as target:
        target.write_text("ha")
        raise KeyboardInterrupt


def test_a_file_for_rows_is_whole_or_as_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt):
        write_half(path)
    assert path.read_text() == "before"
    with whole_file(path) as target:
        target.write_text("whole")
    assert path.read_text() == "whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("name", ["", "none/rows.csv"])
def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path, name: str) -> None:
    words = ("sql", "select 1", "--lake", str(tmp_path), "--output", str(tmp_path / name))
    assert refused(*words).startswith("--output: ")


@pytest.mark.parametrize(
    "place", ["/proc/nope", "/dev/nodir/x", "{}/" + "a" * 256, "{}/loop", "{}/loop/x", "{}/f/x"]
)
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "f").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    path = place.format(tmp_path)
    words = ("sql", "select 1", "--lake", str(tmp_path / "lake"), "--output", path)
    assert refused(*words).startswith("--output: ")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["f", "lake", "loop"]


def test_a_file_for_rows_may_have_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 255)
    with whole_file(path) as target:
        target.write_text("whole")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no memory file system")
def test_a_file_for_rows_in_shared_memory_is_whole_or_as_before() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        path = Path(place, "rows.csv")
        with pytest.raises(KeyboardInterrupt):
            write_half(path)
        assert os.listdir(place) == []


def test_a_link_to_a_file_for_rows_stays_a_link(tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to("rows.csv")
    with whole_file(path) as target:
        target.write_text("whole")
    assert path.is_symlink()
    assert (tmp_path / "rows.csv").read_text() == "whole"


def test_rows_follow_what_an_open_file_has(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    words = ["sql", "select 1 as n", "--format", "csv", "--output", "/dev/stdout"]
    with log.open("a") as stream:
        inode = log.stat().st_ino
        command = [sys.executable, "-m", "flows.cli", *words, "--lake", str(tmp_path / "lake")]
        (tmp_path / "lake").mkdir()
        subprocess.run(command, stdout=stream, check=True)
    assert log.stat().st_ino == inode


def test_rows_go_to_a_device_as_well(tmp_path: Path) -> None:
    words = ["sql", "select 1 as n", "--format", "csv", "--output", "/dev/stdout"]
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *words, "--lake", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "n\n1\n"), done.stderr


def test_a_parameter_without_a_report_is_refused(tmp_path: Path) -> None:
    done = grpo("sql", "select 1", "--param", "x=1", "--lake", str(tmp_path))
    assert done.exit_code == 2
    assert "--param is for --report NAME" in done.output


def test_a_table_that_is_not_there_says_where_names_are_listed(tmp_path: Path) -> None:
    error = grpo("sql", "from nowhere", "--lake", str(tmp_path)).exception
    assert isinstance(error, DataContractError)
    assert "grpo sql --list" in error.hint


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_a_file_that_no_query_may_read_says_what_one_reads(tmp_path: Path, name: str) -> None:
    error = grpo("sql", f"from '{name}'", "--lake", str(tmp_path)).exception
    assert isinstance(error, DataContractError)
    assert "Permission Error" in error.message
    assert "the tables and views of a lake and no other file" in error.hint


STRANGERS = [
    ("artifacts/model/v1/weights/model.bin", "artifacts/model/v1/CURRENT", "runs/r/log.txt"),
    ("runs/1/run.json", "runs/1/config.json", "artifacts/a.txt"),  # as sacred leaves them
    (".trash/thesis/thesis.txt",),
]


@pytest.mark.parametrize("words", [*READERS, ("lake", "import", "r.tar")], ids=" ".join)
@pytest.mark.parametrize("names", STRANGERS, ids=["models", "runs", "trash"])
def test_a_project_with_directories_called_as_those_of_a_lake_is_none(
    tmp_path: Path, words: tuple[str, ...], names: tuple[str, ...]
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    assert refused(*words, "--lake", str(tmp_path)) == f"{tmp_path} is no lake"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["lost+found", ".Trash-1000", ".gitkeep/x", "artifacts", "runs"])
def test_a_fresh_volume_is_an_empty_lake(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    for words in READERS[:5]:
        assert grpo(*words, "--lake", str(tmp_path)).exit_code == 0


KEY = "a" * 64


@pytest.mark.parametrize(
    "name",
    [
        *("lake.duckdb", "locks/lake.lock", "runs/r/attempts/0001.json"),
        *(f"artifacts/ingest/{KEY}/CURRENT", f"partial/train/{KEY}/x", "ref_logprobs/f/x"),
    ],
)
def test_what_an_earlier_release_or_a_copy_in_part_has_is_a_lake(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    assert Lake(tmp_path).is_one()


def test_a_plan_before_the_first_run_leaves_a_lake(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    planned = grpo("plan", "--set", f"execution.lake={place}")
    assert planned.exit_code == 0, planned.output
    assert [path.name for path in place.iterdir()] == [".digests"]
    assert grpo("sql", "select 1", "--lake", str(place)).exit_code == 0
    (place / ".digests" / "thesis.txt").write_text("x")
    assert refused("sql", "select 1", "--lake", str(place)) == f"{place} is no lake"


def test_a_listing_takes_no_output_and_leaves_the_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "precious.csv"
    target.write_text("1")
    listed = grpo("sql", "--list", "--output", str(target), "--lake", str(tmp_path / "lake"))
    assert listed.exit_code == 2
    assert "not for --list" in " ".join(listed.output.replace("│", " ").split())
    assert target.read_text() == "1"


def test_links_that_go_in_a_circle_are_no_lake_and_no_archive(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    place.symlink_to(place)
    for words in READERS:
        assert refused(*words, "--lake", str(place)) == f"--lake: there is no {place}"
    archive = ("lake", "import", str(place), "--lake", str(tmp_path / "new"))
    assert refused(*archive) == f"{place} does not exist"
