"""Verify finds damage; gc removes what no run uses and nothing else."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from audited_lake import KEY, fill_cache, pin, publish
from fault_walk import failing_open

from grpo_core.errors import ArtifactError, RunBusyError
from grpo_core.store import files
from grpo_core.store.exchange import import_run
from grpo_core.store.files import read_json, write_json
from grpo_core.store.lake import Lake
from grpo_core.store.maintenance import (
    Verified,
    compact,
    find_garbage,
    no_run_active,
    remove_garbage,
    verify,
)
from grpo_core.store.manifests import write_manifest


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_verify_names_what_is_damaged(lake: Lake) -> None:
    artifact = publish(lake, 1)
    assert verify(lake) == Verified(1, 0, [])
    artifact.files("audit_results")[0].write_bytes(b"torn")
    found = verify(lake)
    assert found.num_artifacts == 1
    assert "part-00000.parquet" in found.damaged[0].reason


def test_gc_keeps_what_a_run_pins(lake: Lake) -> None:
    old, kept = publish(lake, 1), publish(lake, 2)
    pin(lake, kept)
    garbage = find_garbage(lake)
    assert [lake.root / item.path for item in garbage] == [old.path]
    remove_garbage(lake, garbage)
    assert not old.path.exists()
    assert kept.path.exists()


def test_gc_leaves_in_force_what_it_keeps(lake: Lake) -> None:
    kept, newest = publish(lake, 1), publish(lake, 2)
    pin(lake, kept)
    remove_garbage(lake, find_garbage(lake))
    assert not newest.path.exists()
    current = lake.store.current("audit", KEY)
    assert current is not None
    assert current.path == kept.path
    (lake.root / "runs/r/run.json").unlink()
    remove_garbage(lake, find_garbage(lake))
    assert not kept.path.parent.exists()
    assert lake.store.current("audit", KEY) is None
    assert find_garbage(lake) == []


def test_gc_refuses_while_a_run_is_at_work(lake: Lake) -> None:
    with (
        lake.in_use("run 'r'"),
        lake.in_use("run 's'"),
        pytest.raises(RunBusyError, match=r"run '[rs]'"),
        no_run_active(lake),
    ):
        pass


def test_what_writes_waits_for_gc_or_is_refused(lake: Lake) -> None:
    told: list[str] = []

    class TiredError(Exception):
        pass

    def on_wait(holder: str) -> None:
        told.append(holder)
        raise TiredError

    with no_run_active(lake):
        (lake.root / "r.tar").touch()
        with pytest.raises(RunBusyError, match="grpo lake gc"), lake.in_use("import"):
            pass
        with pytest.raises(RunBusyError, match="grpo lake gc"):
            import_run(lake, lake.root / "r.tar")
        with pytest.raises(TiredError), lake.in_use("a run", on_wait=on_wait):
            pass
    assert "grpo lake gc" in told[0]
    with lake.in_use("a run", on_wait=on_wait):
        pass


@pytest.mark.parametrize("damage", ["tear", "delete", "index", "unpinned"])
def test_verify_finds_damaged_and_missing_parts(lake: Lake, damage: str) -> None:
    cache = fill_cache(lake)
    assert verify(lake) == Verified(0, 2, [])
    part = min(cache.directory.glob("part-*.parquet"))
    index = min(cache.directory.glob("part-*.index.npy"))
    if damage == "tear":
        part.write_bytes(part.read_bytes()[:-5])
    elif damage == "delete":
        part.unlink()
    elif damage == "index":
        index.write_bytes(max(cache.directory.glob("part-*.index.npy")).read_bytes())
    else:
        artifact = publish(lake, 1)
        pin(lake, artifact)
        shutil.rmtree(artifact.path)
    (entry,) = verify(lake).damaged
    assert entry.reason


def test_compact_and_gc_leave_one_part(lake: Lake) -> None:
    cache = fill_cache(lake, parts=3)
    (lake.root / "partial/train/key").mkdir(parents=True)
    assert compact(lake) == [(cache.directory.name, 3, 1)]
    with no_run_active(lake):
        remove_garbage(lake, find_garbage(lake))
    assert len(list(cache.directory.glob("part-*.parquet"))) == 1
    assert verify(lake) == Verified(0, 1, [])


def test_gc_removes_a_cache_that_no_run_uses_and_what_killed_writers_left(lake: Lake) -> None:
    cache = fill_cache(lake)
    artifact = publish(lake, 1)
    pin(lake, artifact)
    left = [
        lake.root / "runs/r" / name
        for name in (".run.json.0123abcd", ".stop.json.0123abcd", "attempts/.0001.json.0123abcd")
    ]
    mine = [lake.root / "runs/r" / name for name in (".notes.20251130", "attempts/.a.20251130")]
    for path in [*left, *mine]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{")
    views = lake.root / ".lake.duckdb.a1b2c3d4"
    views.mkdir()
    (views / "lake.duckdb").write_text("torn")
    remove_garbage(lake, find_garbage(lake))
    assert not cache.directory.exists()
    assert not views.exists()
    assert not any(path.exists() for path in left)
    assert all(path.is_file() for path in mine)
    assert artifact.path.exists()


def test_gc_keeps_a_cache_when_a_run_rests_on_an_artefact_that_is_damaged(lake: Lake) -> None:
    cache = fill_cache(lake)
    artifact = publish(lake, 1)
    pin(lake, artifact)
    artifact.files("audit_results")[0].write_bytes(b"torn")
    assert find_garbage(lake) == []
    assert cache.directory.is_dir()


def test_an_artifact_that_is_a_link_out_of_the_lake_is_not_used(lake: Lake, tmp_path: Path) -> None:
    artifact = publish(lake, 1)
    part = artifact.files("audit_results")[0]
    part.rename(tmp_path / "part.parquet")
    part.symlink_to(tmp_path / "part.parquet")
    with pytest.raises(ArtifactError, match="symbolic link"):
        lake.store.current("audit", KEY)
    part.unlink()
    (tmp_path / "part.parquet").rename(part)
    part.parent.rename(tmp_path / "audit_results")
    part.parent.symlink_to(tmp_path / "audit_results")
    with pytest.raises(ArtifactError, match="audit_results is a symbolic link"):
        lake.store.current("audit", KEY)
    part.parent.unlink()
    (tmp_path / "audit_results").rename(part.parent)
    artifact.path.rename(tmp_path / "moved")
    artifact.path.symlink_to(tmp_path / "moved")
    with pytest.raises(ArtifactError, match="symbolic link"):
        lake.store.current("audit", KEY)
    assert publish(lake, 1).path.is_dir()
    assert (tmp_path / "moved").is_dir()


@pytest.mark.parametrize("name", ["/etc/hostname", "tables/../../../../x"])
def test_a_manifest_can_not_name_a_file_outside_of_its_artifact(lake: Lake, name: str) -> None:
    artifact = publish(lake, 1)
    manifest = read_json(artifact.path / "manifest.json")
    manifest["files"] = {name: {"bytes": 1, "sha256": "0" * 64}, **manifest["files"]}
    write_manifest(artifact.path, manifest)
    with pytest.raises(ArtifactError, match="lies outside of its artefact"):
        lake.store.current("audit", KEY)


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_reading_renames_no_damaged_part_and_writing_does(lake: Lake) -> None:
    cache = fill_cache(lake)
    part = min(cache.directory.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-5])
    part.with_name(part.name.replace(".parquet", ".index.npy")).unlink()
    before = files_of(cache.directory)
    find_garbage(lake)
    verify(lake)
    assert files_of(cache.directory) == before
    compact(lake)
    assert not part.exists()
    assert (cache.directory / f"damaged-{part.name}").exists()


def test_verify_goes_on_after_a_part_that_it_may_not_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_cache(lake)
    publish(lake, 1)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", refuse)
    with failing_open("part-00000.parquet", errno.EACCES):
        found = verify(lake)
    assert (found.num_artifacts, found.num_parts) == (1, 2)
    assert [("cannot be read now" in entry.reason) for entry in found.damaged] == [True] * 3


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("is_hashed", [True, False])
def test_a_file_changed_in_place_is_no_part_of_a_catalog(lake: Lake, is_hashed: bool) -> None:
    artifact = publish(lake, 1)
    pin(lake, artifact)
    record = read_json(lake.root / "runs/r/run.json")
    attempt = {"attempt": 1, "nodes": list(record["nodes"].values())}
    write_json(lake.root / "runs/r/attempts/0001.json", attempt)
    assert len(lake.catalog("r", is_hashed=True).entries) == 1
    flip_byte(artifact.files("audit_results")[0])
    for _ in range(2):
        catalog = lake.catalog("r", is_hashed=is_hashed)
        assert catalog.entries == ()
        assert "does not have the sha256" in catalog.damaged[0].reason


def test_a_catalog_for_queries_hashes_no_file_that_never_was(lake: Lake) -> None:
    flip_byte(publish(lake, 1).files("audit_results")[0])
    assert len(lake.catalog().entries) == 1
    assert len(lake.catalog(is_hashed=True).damaged) == 1
    assert len(lake.catalog().damaged) == 1


def test_a_hashed_catalog_hashes_no_file_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(lake, publish(lake, 1))
    lake.catalog(is_hashed=True)

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} is hashed again")

    monkeypatch.setattr("grpo_core.store.files.sha256_file", refuse)
    assert len(lake.catalog(is_hashed=True).entries) == 1
    assert len(lake.catalog().entries) == 1


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_query_of_a_lake_made_read_only_hashes_no_file_for_its_mode(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, is_writable: bool
) -> None:
    (part,) = publish(lake, 1).files("audit_results")
    lake.catalog(is_hashed=True)
    flip_byte(part)
    lake.catalog()
    hashed: list[Path] = []
    real = files.sha256_file
    monkeypatch.setattr(files, "sha256_file", lambda path: hashed.append(path) or real(path))
    monkeypatch.setattr(os, "access", lambda *_: is_writable)
    part.chmod(0o444)
    assert len(lake.catalog().damaged) == 1
    assert hashed == [part] * is_writable
    flip_byte(part)
    assert lake.catalog().damaged == ()
    assert hashed == [part] * (1 + is_writable)


def test_gc_takes_nothing_that_is_not_called_as_what_a_lake_has(lake: Lake) -> None:
    artifact = publish(lake, 1)
    key = artifact.path.parent
    mine = [
        *(
            lake.root / "artifacts/model/v1" / name
            for name in ("weights/w", "CURRENT", ".w.0123abcd")
        ),
        *(key / name for name in ("notes/n", "README")),
    ]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert [lake.root / item.path for item in find_garbage(lake)] == [artifact.path]
    remove_garbage(lake, find_garbage(lake))
    assert not artifact.path.exists()
    assert not (key / "CURRENT").exists()
    assert all(path.is_file() for path in mine)
    assert verify(lake) == Verified(0, 0, [])
