"""An imported archive is data: it brings no code, no links and no files but records."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_run import make_lake
from test_exchange_files import check_imported, repack

from grpo_core.config import load_config
from grpo_core.errors import ArtifactError
from grpo_core.store import Lake
from grpo_core.store.artifacts import Draft
from grpo_core.store.content import conform
from grpo_core.store.exchange import export_run, import_run
from grpo_core.store.files import read_json, write_json
from grpo_core.store.schemas import PROMPTS

CONFIG = "runs/r/config.json"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An export of run `r` with a configuration of the shipped preset."""
    lake = make_lake(tmp_path / "lake")
    write_json(lake.root / CONFIG, load_config("tiny").model_dump(mode="json"))
    (lake.root / "runs/r/logs").mkdir()
    (lake.root / "runs/r/logs/0001.log").write_text("a line\n")
    export_run(lake, "r", tmp_path / "r.tar")
    return tmp_path / "r.tar"


def with_setting(section: str, **values: Any) -> Callable[[Path], None]:
    def change(scratch: Path) -> None:
        config = read_json(scratch / CONFIG)
        config[section] |= values
        write_json(scratch / CONFIG, config)

    return change


def with_file(name: str) -> Callable[[Path], None]:
    def change(scratch: Path) -> None:
        (place,) = scratch.glob(name.rpartition("/")[0])
        (place / name.rpartition("/")[2]).write_text("print('code from an archive ran')")

    return change


def with_programs(scratch: Path) -> None:
    row = dict.fromkeys(PROMPTS.schema.names)
    row |= {"prompt_id": "p", "source": "s", "row_number": 0, "split": "train", "text": "t"}
    rows = conform_rows([row | {"verifier": "code", "tests": "{}"}])
    Lake(scratch).store.publish(Draft("prompts", "ingest", "b" * 64, {}, tables={"prompts": rows}))
    (scratch / "artifacts/ingest" / ("b" * 64) / "CURRENT").unlink()


def conform_rows(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return conform(pa.Table.from_pylist(rows, schema=PROMPTS.schema), PROMPTS)


CODE = {
    "own function": (with_setting("reward", function="evil.py:reward"), r"reward\.function = evil"),
    "importable": (with_setting("reward", function="os:system"), r"reward\.function = os:system"),
    "programs": (with_setting("reward", function="code"), r"reward\.function = code"),
    "named": (with_setting("reward", verifiers={"a": "x.py:f"}), r"reward\.verifiers"),
    "opinions": (with_setting("reward", calls={"second_opinions": ["code"]}), "second_opinions"),
    "model": (with_setting("model", trust_remote_code=True), "trust_remote_code = True"),
    "model, truthy": (with_setting("model", trust_remote_code="on"), "trust_remote_code = on"),
    "modelling file": (with_file("artifacts/*/*/*/modeling_x.py"), r"modeling_x\.py"),
    "rows": (with_programs, "rows of verifier code"),
}


@pytest.mark.parametrize("kind", CODE)
def test_an_archive_that_brings_code_is_refused_unless_it_is_allowed(
    archive: Path, tmp_path: Path, kind: str
) -> None:
    change, told = CODE[kind]
    evil = repack(archive, tmp_path / "evil.tar", change)
    other = Lake(tmp_path / "other")
    with pytest.raises(ArtifactError, match=told) as refused:
        import_run(other, evil)
    assert "--allow-code" in refused.value.hint
    assert (other.run_names(), list(other.generations()), other.ref_caches()) == ([], [], [])
    if kind == "modelling file":
        with pytest.raises(ArtifactError, match="which its manifest does not list"):
            import_run(other, evil, allow_code=True)
    else:
        import_run(other, evil, allow_code=True)
        assert other.run_names() == ["r"]


def test_a_run_that_brings_no_code_is_not_asked_for_it(archive: Path, tmp_path: Path) -> None:
    other = Lake(tmp_path / "other")
    assert import_run(other, archive).left_out == ()
    check_imported(other)
    assert (other.root / "runs/r/logs/0001.log").read_text() == "a line\n"


def test_what_is_no_record_of_a_run_is_left_out_and_named(archive: Path, tmp_path: Path) -> None:
    def change(scratch: Path) -> None:
        for name in ("evil.py", "report.html", "logs/evil.py", "deep/er/run.json", "attempts/x.py"):
            (scratch / "runs/r" / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / "runs/r" / name).write_text("x")

    other = Lake(tmp_path / "other")
    done = import_run(other, repack(archive, tmp_path / "more.tar", change))
    assert set(done.left_out) == {
        *("attempts/x.py", "deep/er/run.json", "evil.py", "logs/evil.py", "report.html")
    }
    found = {
        p.relative_to(other.root / "runs/r").as_posix() for p in (other.root / "runs/r").rglob("*")
    }
    assert found == {
        *("attempts", "attempts/0001.json", "config.json", "logs", "logs/0001.log", "run.json")
    }


def test_an_export_holds_records_only(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")
    (tmp_path / "secret").write_text("not of the lake")
    (lake.root / "runs/r/report.html").write_text("x")
    (lake.root / "runs/r/logs").mkdir()
    (lake.root / "runs/r/logs/0001.log").symlink_to(tmp_path / "secret")
    export_run(lake, "r", tmp_path / "r.tar")
    with tarfile.open(tmp_path / "r.tar") as tar:
        names = [name for name in tar.getnames() if name.startswith("runs/")]
    assert names == [f"runs/r/{name}" for name in ("attempts/0001.json", "config.json", "run.json")]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_an_archive_with_a_link_is_refused(archive: Path, tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(archive, "a") as tar:
        member = tarfile.TarInfo("runs/r/away")
        member.type, member.linkname = kind, "runs/r/run.json"
        tar.addfile(member)
    other = Lake(tmp_path / "other")
    with pytest.raises(ArtifactError, match=r"runs/r/away is a link or a device"):
        import_run(other, archive)
    assert (other.run_names(), list(other.generations())) == ([], [])


def forget_artefact(scratch: Path) -> None:
    (generation,) = scratch.glob("artifacts/*/*/*")
    generation.rename(generation.with_name("0" * 12))


def name_place(scratch: Path) -> None:
    attempt = read_json(scratch / "runs/r/attempts/0001.json")
    attempt["nodes"][0]["stage"] = "../../../etc"
    write_json(scratch / "runs/r/attempts/0001.json", attempt)


def with_gap(scratch: Path) -> None:
    write_json(scratch / "runs/r/attempts/0003.json", {"attempt": 3, "nodes": []})


def with_types(scratch: Path) -> None:
    attempt = read_json(scratch / "runs/r/attempts/0001.json")
    attempt["nodes"][0]["seconds"] = "1.0"
    write_json(scratch / "runs/r/attempts/0001.json", attempt)


def without_fields(scratch: Path) -> None:
    record = read_json(scratch / "runs/r/run.json")
    del record["nodes"]["ref_logp"]["kind"]
    write_json(scratch / "runs/r/run.json", record)


def misnumbered(scratch: Path) -> None:
    attempt = read_json(scratch / "runs/r/attempts/0001.json")
    write_json(scratch / "runs/r/attempts/0001.json", attempt | {"attempt": 10**9})


def far_ahead(scratch: Path) -> None:
    record = read_json(scratch / "runs/r/run.json")
    write_json(scratch / "runs/r/run.json", record | {"attempt": 10**9})


def test_what_is_numbered_as_no_attempt_can_be_is_left_out(archive: Path, tmp_path: Path) -> None:
    def change(scratch: Path) -> None:
        for name in ("202501.json", "000001.json", "notes.json"):
            (scratch / "runs/r/attempts" / name).write_text("{}")

    other = Lake(tmp_path / "other")
    done = import_run(other, repack(archive, tmp_path / "odd.tar", change))
    assert set(done.left_out) == {
        f"attempts/{name}" for name in ("202501.json", "000001.json", "notes.json")
    }
    check_imported(other)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (forget_artefact, "which is not in the archive"),
        (name_place, r"0001.json names \.\./\.\./\.\./etc"),
        (lambda scratch: (scratch / "runs/r/run.json").unlink(), "run.json is missing"),
        (lambda scratch: (scratch / "runs/r/run.json").write_text("[]"), "no record of a run"),
        (lambda scratch: (scratch / "runs/r/run.json").write_text("{"), "no record of a run"),
        (with_gap, r"of a run: runs/r/attempts/0002\.json is missing"),
        (with_types, r"runs/r/attempts/0001\.json holds a node without valid seconds"),
        (without_fields, r"runs/r/run\.json holds a node without valid kind"),
        (misnumbered, r"runs/r/attempts/0001\.json says that it is 1000000000"),
        (far_ahead, r"runs/r/run\.json names an attempt that did not come"),
    ],
)
def test_records_that_name_what_did_not_come_are_refused(
    archive: Path, tmp_path: Path, change: Callable[[Path], None], told: str
) -> None:
    other = Lake(tmp_path / "other")
    with pytest.raises(ArtifactError, match=told):
        import_run(other, repack(archive, tmp_path / "odd.tar", change))
    assert (other.run_names(), list(other.generations())) == ([], [])
