"""Export and import on a small lake made by hand; a true run moves in stages/test_exchange.py."""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from fault_walk import run_until
from small_run import KEY, PRINT, ROWS, VALUES, make_lake, node, publish

from grpo_core.errors import ArtifactError, ConfigError, DataContractError
from grpo_core.store import Lake, RefLogprobCache, RefRow
from grpo_core.store.exchange import export_run, import_run
from grpo_core.store.files import read_json, sha256_file, write_json
from grpo_core.store.maintenance import Verified, find_garbage, remove_garbage, verify
from grpo_core.store.manifests import write_manifest


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path / "lake")


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
    for operation in range(400):
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


@pytest.mark.slow
def test_an_export_is_killed_before_every_file_operation(tmp_path: Path) -> None:
    make_lake(tmp_path / "prepared")
    for operation in range(400):
        place = tmp_path / str(operation)
        lake = Lake(Path(shutil.copytree(tmp_path / "prepared", place / "lake")))
        target = place / "r.tar"
        was_killed = run_until(
            operation, place, lambda lake=lake, t=target: export_run(lake, "r", t)
        )
        assert verify(lake) == Verified(1, 1, [])
        if target.exists():
            import_run(Lake(place / "other"), target)
            check_imported(Lake(place / "other"))
        assert was_killed or target.exists()
        assert export_run(lake, "r", target).num_cache_rows == 4
        remove_garbage(lake, find_garbage(lake))
        assert not list((lake.root / ".staging").iterdir())
        shutil.rmtree(place)
        if not was_killed:
            assert operation > 5
            return
    raise AssertionError("the export never finished")


def test_a_damaged_artefact_of_an_earlier_attempt_is_left_out_and_named(
    lake: Lake, tmp_path: Path
) -> None:
    earlier = publish(lake, ROWS[:3])
    first = {"attempt": 1, "nodes": [node(earlier)]}
    second = {**read_json(lake.root / "runs/r/attempts/0001.json"), "attempt": 2}
    write_json(lake.root / "runs/r/attempts/0001.json", first)
    write_json(lake.root / "runs/r/attempts/0002.json", second)
    write_json(
        lake.root / "runs/r/run.json", {**read_json(lake.root / "runs/r/run.json"), "attempt": 2}
    )
    assert export_run(lake, "r", tmp_path / "whole.tar").num_artifacts == 2
    part = earlier.files("ref_receipts")[0]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    done = export_run(lake, "r", tmp_path / "r.tar")
    assert done.num_artifacts == 1
    assert [earlier.path.name in line and "sha256" in line for line in done.left_out] == [True]
    import_run(Lake(tmp_path / "other"), tmp_path / "r.tar")
    assert verify(Lake(tmp_path / "other")).damaged == []
    assert [lake.root / item.path for item in find_garbage(lake)] == []
    shutil.rmtree(earlier.path)
    assert export_run(lake, "r", tmp_path / "r.tar").left_out == ()


def test_a_bit_that_changed_under_an_old_time_stamp_is_found_by_an_export(
    lake: Lake, tmp_path: Path
) -> None:
    """The disk lies: size, times and inode are those of the file that was hashed."""
    (part,) = lake.root.glob("artifacts/*/*/*/tables/*/*.parquet")
    lake.store.current("ref-logp", KEY)
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    (memory,) = [
        path
        for path in (lake.root / ".digests").iterdir()
        if read_json(path)["identity"][0] == str(part.resolve())
    ]
    status = part.stat()
    times = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    write_json(memory, {**read_json(memory), "identity": [str(part.resolve()), *times]})
    lake.store.current("ref-logp", KEY)
    with pytest.raises(ArtifactError, match=r"cannot be exported.*sha256"):
        export_run(lake, "r", tmp_path / "r.tar")


def test_after_an_export_no_artefact_is_hashed_again(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.catalog("r", is_hashed=True)
    export_run(lake, "r", tmp_path / "r.tar")

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} is hashed again")

    monkeypatch.setattr("grpo_core.store.files.sha256_file", refuse)
    assert len(lake.catalog("r", is_hashed=True).entries) == 1


BAD_VALUES = {
    "bf16": (lambda v: (v.view(np.uint32) & 0xFFFF0000).view(np.float32), "bf16"),
    "positive": (lambda v: -v, "above 0"),
    "nan": (lambda v: v * np.float32("nan"), "NaN"),
}


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_values_that_are_no_logprobs_are_found_exported_and_imported_nowhere(
    lake: Lake, tmp_path: Path, kind: str
) -> None:
    change, told = BAD_VALUES[kind]
    export_run(lake, "r", tmp_path / "r.tar")
    bad = [change(9 * values) for values in VALUES[2:6]]

    def replace(root: Path) -> None:
        for part in root.glob("ref_logprobs/*/part-*"):
            part.unlink()
        cache = RefLogprobCache(root / "ref_logprobs", PRINT)
        cache.absorb([row.key for row in ROWS[2:6]], bad, ["who"] * 4)
        (cache.directory / ".lock").unlink()

    evil = repack(tmp_path / "r.tar", tmp_path / "evil.tar", replace)
    other = Lake(tmp_path / "other")
    with pytest.raises(DataContractError, match=f"row {ROWS[2].key}: .*{told}"):
        import_run(other, evil)
    assert other.run_names() == []
    assert (other.ref_caches(), list(other.generations())) == ([], [])
    replace(lake.root)
    (entry,) = verify(lake).damaged
    assert told in entry.reason
    with pytest.raises(DataContractError, match=told):
        export_run(lake, "r", tmp_path / "again.tar")


def test_values_that_are_not_finite_are_counted(lake: Lake) -> None:
    cache = RefLogprobCache(lake.root / "ref_logprobs", PRINT)
    values = np.array([-1.5, np.nan, -np.inf, -0.1, np.inf], np.float32)
    cache.absorb([RefRow((99,), range(5), 1.0).key], [values], ["who"])
    part = max(cache.directory.glob("part-*.parquet"))
    assert pq.read_table(part, columns=["logprob_nonfinite"]).to_pylist() == [
        {"logprob_nonfinite": 3}
    ]
