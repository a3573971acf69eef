"""A manifest that was torn or changed is found before anything rests on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from grpo_core.errors import ArtifactError
from grpo_core.store import Lake
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.canonical import sha256_json
from grpo_core.store.files import read_json, write_json
from grpo_core.store.maintenance import verify
from grpo_core.store.manifests import write_manifest
from grpo_core.store.schemas import AUDIT_RESULTS, TIMINGS

PAYLOAD = {"kind": "audit", "fields": {"a": 1.5, "b": None, "c": [1, "x"]}}
KEY = sha256_json(PAYLOAD)
Manifest = dict[str, Any]


def publish(lake: Lake, rows: int) -> Artifact:
    table = pa.Table.from_pylist(
        [{"audit": "a", "severity": "warn", "num_rows": rows, "why": "w"}],
        schema=AUDIT_RESULTS.schema,
    )
    state, notes = lake.root / "made/state", lake.root / "made/notes"
    for directory in (state, notes):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "file").write_text(str(rows))
    return lake.store.publish(
        Draft(
            "audit",
            "audit",
            KEY,
            PAYLOAD,
            tables={"audit_results": table, "timings": TIMINGS.schema.empty_table()},
            directories={"state": state},
            side_directories={"notes": notes},
            aspects={"part": "p" * 64},
            figures={"rate": 0.1, "none": float("nan")},
        )
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def make_old(artifact: Artifact) -> None:
    """As earlier releases wrote it: without proof."""
    manifest = read_json(artifact.path / "manifest.json")
    del manifest["proof"]
    write_json(artifact.path / "manifest.json", manifest)


def refused(lake: Lake, artifact: Artifact, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        lake.store.current("audit", KEY)
    (entry,) = lake.catalog().damaged
    assert str(artifact.path) in entry.reason
    assert [found.reason for found in verify(lake).damaged] == [entry.reason]
    assert publish(lake, 1).path == artifact.path
    assert lake.store.current("audit", KEY) is not None
    assert verify(lake).damaged == []


def test_a_manifest_comes_back_as_it_was_written(lake: Lake) -> None:
    publish(lake, 1)
    current = lake.store.current("audit", KEY)
    assert current is not None
    assert current.manifest["payload"] == PAYLOAD
    assert set(current.manifest["aspects"]) == {"state", "part"}
    assert str(current.manifest["figures"]) == "{'rate': 0.1, 'none': nan}"
    assert verify(lake).damaged == []


def test_a_manifest_of_an_earlier_release_is_read(lake: Lake) -> None:
    make_old(publish(lake, 1))
    assert lake.store.current("audit", KEY) is not None
    assert verify(lake).damaged == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"files": {}}', '{"files": 1}'])
def test_a_torn_manifest_is_damage(lake: Lake, text: str) -> None:
    artifact = publish(lake, 1)
    (artifact.path / "manifest.json").write_text(text)
    refused(lake, artifact, r"manifest\.json")


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        ("kind",),
        ("stage",),
        ("content",),
        ("payload",),
        ("tables", "audit_results"),
        ("tables", "audit_results", "files"),
        ("tables", "audit_results", "rows"),
        ("tables", "audit_results", "digest"),
        ("files", "tables/audit_results/part-00000.parquet", "sha256"),
        ("aspects",),
    ],
    ids="/".join,
)
def test_a_field_that_is_gone_is_damage(lake: Lake, place: tuple[str, ...], is_old: bool) -> None:
    artifact = publish(lake, 1)
    if is_old:
        make_old(artifact)
    manifest = read_json(artifact.path / "manifest.json")
    inside = manifest
    for name in place[:-1]:
        inside = inside[name]
    del inside[place[-1]]
    write_json(artifact.path / "manifest.json", manifest)
    refused(lake, artifact, r"manifest\.json")


def set_aspect(manifest: Manifest) -> None:
    manifest["aspects"]["state"] = "0" * 64


def set_own_aspect(manifest: Manifest) -> None:
    manifest["aspects"]["part"] = "0" * 64


def set_rows(manifest: Manifest) -> None:
    manifest["tables"]["audit_results"]["rows"] = 3


def set_figures(manifest: Manifest) -> None:
    manifest["figures"]["rate"] = 0.2


def list_no_file_of_a_table(manifest: Manifest) -> None:
    manifest["tables"]["audit_results"]["files"] = []


def forget_a_file(manifest: Manifest) -> None:
    del manifest["files"]["tables/audit_results/part-00000.parquet"]


def set_payload(manifest: Manifest) -> None:
    manifest["payload"]["fields"]["a"] = 2.5


def set_content(manifest: Manifest) -> None:
    manifest["content"] = manifest["content"][:12] + "0" * 52


def set_digest(manifest: Manifest) -> None:
    manifest["tables"]["audit_results"]["digest"] = "0" * 64


SEEN_WITHOUT_PROOF = (
    set_aspect,
    list_no_file_of_a_table,
    forget_a_file,
    set_payload,
    set_content,
    set_digest,
)


@pytest.mark.parametrize("change", [*SEEN_WITHOUT_PROOF, set_own_aspect, set_rows, set_figures])
def test_a_changed_manifest_is_damage(lake: Lake, change: Callable[[Manifest], None]) -> None:
    artifact = publish(lake, 1)
    manifest = read_json(artifact.path / "manifest.json")
    change(manifest)
    write_json(artifact.path / "manifest.json", manifest)
    refused(lake, artifact, r"manifest\.json was changed since it was published")


@pytest.mark.parametrize("change", SEEN_WITHOUT_PROOF)
def test_a_changed_manifest_of_an_earlier_release_is_damage(
    lake: Lake, change: Callable[[Manifest], None]
) -> None:
    artifact = publish(lake, 1)
    make_old(artifact)
    manifest = read_json(artifact.path / "manifest.json")
    change(manifest)
    write_json(artifact.path / "manifest.json", manifest)
    refused(lake, artifact, r"manifest\.json")


def test_a_generation_under_the_name_of_another_is_damage(lake: Lake) -> None:
    other, artifact = publish(lake, 2), publish(lake, 1)
    manifest = (other.path / "manifest.json").read_bytes()
    lake.store.discard(other.path)
    (artifact.path / "manifest.json").write_bytes(manifest)
    refused(lake, artifact, f"is of content {other.path.name}, not of {artifact.path.name}")


def test_a_table_whose_file_is_not_listed_is_damage_whatever_the_proof(lake: Lake) -> None:
    artifact = publish(lake, 1)
    manifest = read_json(artifact.path / "manifest.json")
    forget_a_file(manifest)
    write_manifest(artifact.path, manifest)
    refused(lake, artifact, "does not list tables/audit_results/part-00000")
