"""Export and import on a small lake made by hand; a true run moves in stages/test_exchange.py."""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fault_walk import run_until

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.store import Fingerprint, Lake, RefLogprobCache, RefRow
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.exchange import export_run, import_run
from grpo_core.store.files import read_json, sha256_file, write_json
from grpo_core.store.maintenance import Verified, verify
from grpo_core.store.manifests import write_manifest
from grpo_core.store.schemas import REF_RECEIPTS

KEY = "a" * 64
PRINT = Fingerprint("w", "t", "float32", "sdpa")
ROWS = [RefRow((n,), range(5), 1.0) for n in range(9)]
VALUES = [-np.arange(1, 6, dtype=np.float32) / (2 * n + 7) for n in range(9)]


def publish(lake: Lake, rows: list[RefRow]) -> Artifact:
    receipts = {
        "row_key": [row.key for row in rows],
        "prompt_id": ["p"] * len(rows),
        "sample_index": range(len(rows)),
        "fingerprint": [PRINT.digest] * len(rows),
        "num_completion_tokens": [5] * len(rows),
        "ref_logprob_sum": [-1.0] * len(rows),
    }
    table = pa.Table.from_pydict(receipts, schema=REF_RECEIPTS.schema)
    tables = {"ref_receipts": table}
    return lake.store.publish(Draft("ref_logp", "ref-logp", KEY, {}, tables=tables))


def node(artifact: Artifact) -> dict[str, object]:
    return {
        "stage": "ref-logp",
        "label": "ref_logp",
        "kind": "ref_logp",
        "phase": -1,
        "key": artifact.key,
        "content": artifact.content,
        "state": "Computed",
        "seconds": 1.0,
        "tokens": 0,
        "finished_at": "2026-01-01T00:00:00+00:00",
    }


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A run that uses rows 2 … 5 of a cache with nine."""
    lake = Lake(tmp_path / "lake")
    RefLogprobCache(lake.root / "ref_logprobs", PRINT).put_many(ROWS, VALUES, scored_by="who")
    record = node(publish(lake, ROWS[2:6]))
    write_json(lake.root / "runs/r/attempts/0001.json", {"attempt": 1, "nodes": [record]})
    write_json(lake.root / "runs/r/run.json", {"attempt": 1, "nodes": {"ref_logp": record}})
    return lake


def check_imported(lake: Lake, run: str = "r") -> None:
    assert verify(lake) == Verified(1, 1, [])
    cache = RefLogprobCache(lake.root / "ref_logprobs", PRINT)
    found = cache.read(ROWS)
    assert [values is not None for values in found.logprobs] == [2 <= n < 6 for n in range(9)]
    np.testing.assert_array_equal(found.logprobs[3], VALUES[3])
    assert found.scored_by[3] == "who"
    assert [row.run for row in lake.catalog(run).run_artifacts] == [run]
    assert lake.store.current("ref-logp", KEY) is not None


def test_a_run_arrives_with_the_rows_it_used_and_no_others(lake: Lake, tmp_path: Path) -> None:
    done = export_run(lake, "r", tmp_path / "r.tar")
    assert (done.num_artifacts, done.num_cache_rows) == (1, 4)
    other = Lake(tmp_path / "other")
    import_run(other, tmp_path / "r.tar", name="renamed")
    check_imported(other, "renamed")
    with pytest.raises(ConfigError, match="--as NAME"):
        import_run(other, tmp_path / "r.tar", name="renamed")
    again = import_run(other, tmp_path / "r.tar")
    assert (again.num_artifacts, again.num_cache_rows) == (0, 0)


def test_a_damaged_archive_leaves_nothing(lake: Lake, tmp_path: Path) -> None:
    export_run(lake, "r", tmp_path / "r.tar")
    data = bytearray((tmp_path / "r.tar").read_bytes())
    at = data.index(b"PAR1") + 40
    data[at] ^= 1
    (tmp_path / "r.tar").write_bytes(data)
    other = Lake(tmp_path / "other")
    with pytest.raises(ArtifactError, match="missing, changed or not listed"):
        import_run(other, tmp_path / "r.tar")
    assert (list(other.generations()), other.run_names()) == ([], [])


def test_a_damaged_run_is_not_exported(lake: Lake, tmp_path: Path) -> None:
    next(lake.root.glob("artifacts/*/*/*/tables/*/*.parquet")).unlink()
    with pytest.raises(ArtifactError, match="cannot be exported"):
        export_run(lake, "r", tmp_path / "r.tar")
    assert not (tmp_path / "r.tar").exists()


def repack(archive: Path, target: Path, change: Callable[[Path], None]) -> Path:
    """The archive with changed content and an export.json that lists the change."""
    scratch = target.with_suffix("")
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="data")
    change(scratch)
    record = read_json(scratch / "export.json")
    (scratch / "export.json").unlink()
    files = {
        path.relative_to(scratch).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256_file(path),
        }
        for path in scratch.rglob("*")
        if path.is_file()
    }
    write_json(scratch / "export.json", {**record, "files": files})
    with tarfile.open(target, "w") as tar:
        for path in scratch.rglob("*"):
            tar.add(path, path.relative_to(scratch).as_posix(), recursive=False)
    return target


def name_run(scratch: Path, run: str) -> None:
    record = read_json(scratch / "export.json")
    write_json(scratch / "export.json", {**record, "run": run})


def rename_key(scratch: Path) -> None:
    (manifest,) = scratch.glob("artifacts/*/*/*/manifest.json")
    write_manifest(manifest.parent, {**read_json(manifest), "key": "../../../runs/victim"})


@pytest.mark.parametrize("run", ["../../../runs/victim", "..", "", "a/b", "/tmp"])
def test_an_archive_names_no_path_as_its_run(lake: Lake, tmp_path: Path, run: str) -> None:
    export_run(lake, "r", tmp_path / "r.tar")
    evil = repack(tmp_path / "r.tar", tmp_path / "evil.tar", lambda path: name_run(path, run))
    other = Lake(tmp_path / "other")
    victim = other.root / "runs/victim/run.json"
    write_json(victim, {"attempt": 1, "nodes": {}})
    with pytest.raises(ArtifactError, match="is not a run name"):
        import_run(other, evil, name="mine")
    assert other.run_names() == ["victim"]
    assert list(other.generations()) == []


def test_an_archive_names_no_path_as_a_key(lake: Lake, tmp_path: Path) -> None:
    export_run(lake, "r", tmp_path / "r.tar")
    evil = repack(tmp_path / "r.tar", tmp_path / "evil.tar", rename_key)
    other = Lake(tmp_path / "other")
    with pytest.raises(ArtifactError, match="is of key"):
        import_run(other, evil)
    assert not (other.root / "runs").exists()


def test_a_run_whose_rows_are_gone_is_named_and_not_exported(lake: Lake, tmp_path: Path) -> None:
    (cache,) = lake.ref_caches()
    shutil.rmtree(cache)
    RefLogprobCache(lake.root / "ref_logprobs", PRINT).put_many(ROWS[:3], VALUES[:3])
    (entry,) = verify(lake).damaged
    assert "run 'r': 3 of the 4 reference rows" in entry.reason
    with pytest.raises(ArtifactError, match="3 of the 4") as refused:
        export_run(lake, "r", tmp_path / "r.tar")
    assert "grpo lake restore --run r" in str(refused.value)
    assert not (tmp_path / "r.tar").exists()
    shutil.rmtree(lake.root / "ref_logprobs")
    (entry,) = verify(lake).damaged
    assert "4 of the 4" in entry.reason
    assert not (lake.root / "ref_logprobs").exists()


@pytest.mark.slow
def test_an_import_is_killed_before_every_file_operation(lake: Lake, tmp_path: Path) -> None:
    export_run(lake, "r", tmp_path / "r.tar")
    for operation in range(0, 400, 3):
        other = Lake(tmp_path / f"other-{operation}")
        other.root.mkdir()
        was_killed = run_until(
            operation, other.root, lambda other=other: import_run(other, tmp_path / "r.tar")
        )
        if was_killed:
            assert verify(other).damaged == []
            if other.run_names() == []:
                import_run(other, tmp_path / "r.tar")
        check_imported(other)
        if not was_killed:
            return
    raise AssertionError("the import never finished")


def flip_in_logprobs(part: Path) -> None:
    column = pq.read_metadata(part).row_group(0).column(2)
    assert column.path_in_schema.startswith("logprobs")
    data = bytearray(part.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    part.write_bytes(data)


@pytest.mark.parametrize("damage", ["page", "footer"])
def test_a_run_whose_rows_are_damaged_is_not_exported(
    lake: Lake, tmp_path: Path, damage: str
) -> None:
    """The index of the part is whole."""
    (part,) = lake.root.glob("ref_logprobs/*/part-*.parquet")
    if damage == "page":
        flip_in_logprobs(part)
    else:
        part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="4 of the 4 reference rows") as caught:
        export_run(lake, "r", tmp_path / "r.tar")
    assert "grpo lake restore --run r" in caught.value.hint
    assert not (tmp_path / "r.tar").exists()


def test_rows_of_another_reference_do_not_stand_in_for_damaged_ones(
    lake: Lake, tmp_path: Path
) -> None:
    """Keys name tokens and temperature, so two references have rows of the same keys."""
    (part,) = lake.root.glob("ref_logprobs/*/part-*.parquet")
    other = Fingerprint("other", "t", "float32", "sdpa")
    RefLogprobCache(lake.root / "ref_logprobs", other).put_many(ROWS, VALUES)
    flip_in_logprobs(part)
    with pytest.raises(ArtifactError, match="4 of the 4 reference rows"):
        export_run(lake, "r", tmp_path / "r.tar")
