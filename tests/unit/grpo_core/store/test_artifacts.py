"""Artefacts are complete or absent, found by key, and checked before use."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fault_walk import failing_open, no_descriptor_left

from grpo_core.errors import ArtifactError, DataContractError, FileUnreadableError
from grpo_core.store.artifacts import Artifact, ArtifactStore, Draft
from grpo_core.store.files import sha256_file
from grpo_core.store.lake import Lake
from grpo_core.store.manifests import write_manifest
from grpo_core.store.schemas import AUDIT_RESULTS, EVENTS, TIMINGS
from grpo_core.store.warehouse import Warehouse


def results(*rows: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"audit": n, "severity": "warn", "num_rows": r, "why": "because"} for n, r in rows],
        schema=AUDIT_RESULTS.schema,
    )


def publish(store: ArtifactStore, *rows: tuple[str, int], key: str = "a" * 64) -> Artifact:
    return store.publish(
        Draft("audit", "audit", key, {"fields": {}}, tables={"audit_results": results(*rows)})
    )


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "lake")


def test_nothing_is_there_before_publishing(store: ArtifactStore) -> None:
    assert store.current("audit", "a" * 64) is None


def test_published_rows_come_back_sorted(store: ArtifactStore) -> None:
    publish(store, ("b", 1), ("a", 2))
    artifact = store.current("audit", "a" * 64)
    assert artifact is not None
    assert artifact.table("audit_results").column("audit").to_pylist() == ["a", "b"]


def test_row_order_does_not_change_the_content(store: ArtifactStore) -> None:
    first = publish(store, ("b", 1), ("a", 2))
    second = publish(store, ("a", 2), ("b", 1), key="b" * 64)
    assert first.content == second.content


def test_other_rows_are_another_generation(store: ArtifactStore) -> None:
    first = publish(store, ("a", 1))
    second = publish(store, ("a", 2))
    assert first.content != second.content
    current = store.current("audit", "a" * 64)
    assert current is not None
    assert current.content == second.content
    assert store.generation("audit", "a" * 64, first.content).content == first.content


def test_side_tables_do_not_enter_the_content(store: ArtifactStore) -> None:
    timing = [
        {"part": "x", "seconds": 1.0, "tokens": 3, "recorded_at": 0, "host": "h"},
    ]
    timed = store.publish(
        Draft(
            "audit",
            "audit",
            "c" * 64,
            {},
            tables={
                "audit_results": results(("a", 1)),
                "timings": pa.Table.from_pylist(timing, schema=TIMINGS.schema),
            },
        )
    )
    assert timed.content == publish(store, ("a", 1)).content


@pytest.mark.parametrize("damage", ["delete", "truncate", "flip", "swap"])
def test_damage_is_found_before_use(store: ArtifactStore, damage: str) -> None:
    part = publish(store, ("a", 1)).files("audit_results")[0]
    if damage == "delete":
        part.unlink()
    elif damage == "truncate":
        part.write_bytes(part.read_bytes()[:-7])
    elif damage == "flip":
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(bytes(data))
    else:
        other = publish(store, ("a", 1), key="b" * 64).files("audit_results")[0]
        part.write_bytes(other.read_bytes())
    with pytest.raises(ArtifactError, match=r"part-00000\.parquet"):
        store.current("audit", "a" * 64)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["CURRENT", "manifest.json", "part-00000.parquet"])
def test_an_error_that_passes_is_no_damage(store: ArtifactStore, number: int, name: str) -> None:
    publish(store, ("a", 1))
    before = files_below(store.root / "artifacts")
    with (
        failing_open(name, number),
        pytest.raises(FileUnreadableError, match=rf"{name} cannot be read now: .*{number}"),
    ):
        store.current("audit", "a" * 64)
    assert files_below(store.root / "artifacts") == before
    assert store.current("audit", "a" * 64) is not None


def test_no_file_descriptor_left_is_no_damage(store: ArtifactStore) -> None:
    artifact = publish(store, ("a", 1))
    with no_descriptor_left():
        with pytest.raises(FileUnreadableError, match="CURRENT cannot be read now"):
            store.current("audit", "a" * 64)
        with pytest.raises(FileUnreadableError, match=r"part-00000\.parquet cannot be read now"):
            artifact.table("audit_results")
    assert artifact.table("audit_results").num_rows == 1


def test_publishing_does_not_discard_what_it_cannot_read(store: ArtifactStore) -> None:
    artifact = publish(store, ("a", 1))
    with (
        failing_open("part-00000.parquet", errno.EIO),
        pytest.raises(FileUnreadableError, match="Input/output error"),
    ):
        store.settle(store.root, artifact.path)
    assert artifact.path.is_dir()
    assert not list(store.root.glob(".trash/*"))


def files_below(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("damage", ["", "\xff"])
def test_a_damaged_pointer_is_damage(store: ArtifactStore, damage: str) -> None:
    artifact = publish(store, ("a", 1))
    (artifact.path.parent / "CURRENT").write_bytes(damage.encode("latin-1"))
    with pytest.raises(ArtifactError, match="CURRENT"):
        store.current("audit", "a" * 64)
    assert publish(store, ("a", 1)).content == artifact.content
    assert store.current("audit", "a" * 64) is not None


def test_a_damaged_generation_is_replaced_by_publishing_again(store: ArtifactStore) -> None:
    part = publish(store, ("a", 1)).files("audit_results")[0]
    part.unlink()
    publish(store, ("a", 1))
    current = store.current("audit", "a" * 64)
    assert current is not None
    assert current.table("audit_results").num_rows == 1


def test_a_part_of_another_key_is_refused_when_read(store: ArtifactStore) -> None:
    artifact = publish(store, ("a", 1))
    other = publish(store, ("a", 1), key="b" * 64).files("audit_results")[0]
    artifact.files("audit_results")[0].write_bytes(other.read_bytes())
    with pytest.raises(ArtifactError, match=r"grpo\.key"):
        artifact.table("audit_results")


@pytest.mark.parametrize("point", ["write_manifest", "rename", "CURRENT"])
def test_a_crash_while_publishing_leaves_the_old_generation(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    old = publish(store, ("a", 1))

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    target = {
        "write_manifest": ("grpo_core.store.artifacts.write_manifest", crash),
        "rename": ("grpo_core.store.artifacts.os.rename", crash),
        "CURRENT": ("grpo_core.store.artifacts.write_text", crash),
    }[point]
    with monkeypatch.context() as patch:
        patch.setattr(*target)
        with pytest.raises(KeyboardInterrupt):
            publish(store, ("a", 2))
    current = store.current("audit", "a" * 64)
    assert current is not None
    assert current.content == old.content
    assert publish(store, ("a", 2)).content != old.content


def test_wrong_columns_are_named(store: ArtifactStore) -> None:
    bad = results(("a", 1)).rename_columns(["audit", "severity", "count", "why"])
    with pytest.raises(DataContractError, match=r"missing columns \['num_rows'\]"):
        store.publish(Draft("audit", "audit", "a" * 64, {}, tables={"audit_results": bad}))
    assert not list((store.root / ".staging").iterdir())


def test_footer_names_key_part_and_rows(store: ArtifactStore) -> None:
    part = publish(store, ("a", 1)).files("audit_results")[0]
    footer = pq.read_metadata(part).metadata
    assert footer[b"grpo.key"] == b"a" * 64
    assert footer[b"grpo.part"] == b"0"
    assert footer[b"grpo.rows"] == b"1"


def test_the_lake_can_be_moved(store: ArtifactStore, tmp_path: Path) -> None:
    content = publish(store, ("a", 1)).content
    os.rename(store.root, tmp_path / "elsewhere")
    moved = ArtifactStore(tmp_path / "elsewhere").current("audit", "a" * 64)
    assert moved is not None
    assert moved.content == content


def rewritten(part: Path, table: pa.Table, **footer: str) -> None:
    """Write a part anew with the footer it had, as another release would have."""
    kept = pq.read_metadata(part).metadata
    metadata = {k: v for k, v in kept.items() if k.startswith(b"grpo.")}
    metadata |= {f"grpo.{name}".encode(): value.encode() for name, value in footer.items()}
    pq.write_table(table.replace_schema_metadata(metadata), part)


def test_columns_that_a_later_schema_added_are_null_in_older_artefacts(
    store: ArtifactStore,
) -> None:
    rows = [{"phase": 1, "step": 2, "event_index": 0, "kind": "k", "reason": "r"}]
    events = pa.Table.from_pylist(rows, schema=EVENTS.schema)
    artifact = store.publish(Draft("train", "train", "a" * 64, {}, tables={"events": events}))
    part = artifact.files("events")[0]
    rewritten(part, pq.read_table(part).drop_columns(["before"]), schema_version="0")
    assert artifact.table("events").column("before").to_pylist() == [None]
    rewritten(part, pq.read_table(part).drop_columns(["reason"]))
    with pytest.raises(ArtifactError, match="before events had the column reason"):
        artifact.table("events")


def test_artefacts_of_two_schema_versions_are_queried_side_by_side(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows = [{"phase": 1, "step": 2, "event_index": 0, "kind": "k", "before": 0.5, "reason": "r"}]
    events = pa.Table.from_pylist(rows, schema=EVENTS.schema)
    for key in ("a" * 64, "b" * 64):
        lake.store.publish(Draft("train", "train", key, {}, tables={"events": events}))
    old = lake.store.generation("train", "a" * 64, lake.catalog().entries[0].content)
    part = old.files("events")[0]
    rewritten(part, pq.read_table(part).drop_columns(["before"]), schema_version="0")
    manifest = dict(old.manifest)
    facts = {"bytes": part.stat().st_size, "sha256": sha256_file(part)}
    write_manifest(old.path, manifest | {"files": {"tables/events/part-00000.parquet": facts}})
    with Warehouse(lake.catalog(is_hashed=True)) as warehouse:
        found = warehouse.query("select artifact_key, before from events order by all").dicts()
    assert [(row["artifact_key"][0], row["before"]) for row in found] == [("a", None), ("b", 0.5)]


def test_a_part_of_a_newer_release_is_refused(store: ArtifactStore) -> None:
    artifact = publish(store, ("a", 1))
    part = artifact.files("audit_results")[0]
    rewritten(part, pq.read_table(part), schema_version="99")
    with pytest.raises(ArtifactError, match="schema version 99"):
        artifact.table("audit_results")
