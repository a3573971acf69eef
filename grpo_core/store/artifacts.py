"""Artefacts: published whole, found by key, checked before use.

```
artifacts/<stage>/<key>/<content12>/   tables/<name>/part-00000.parquet, <directory>/…,
                                       manifest.json
artifacts/<stage>/<key>/CURRENT        content12 of the generation in force
```

Publishing: write into `.staging/`, fsync, manifest last, one rename, then CURRENT. A generation is
never changed after its rename; force adds a generation.
"""

import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from grpo_core.errors import ArtifactError
from grpo_core.store.canonical import sha256_json
from grpo_core.store.content import conform, table_digest
from grpo_core.store.file_checks import check_places, refuse_links, sha256_of
from grpo_core.store.files import (
    FileDigests,
    fsync_directory,
    fsync_file,
    link_or_copy,
    sha256_file,
    write_text,
)
from grpo_core.store.manifests import (
    CONTENT_CHARACTERS,
    content_digest,
    read_manifest,
    write_manifest,
)
from grpo_core.store.models import model_digest
from grpo_core.store.parquet import read_parts, split_parts, write_part
from grpo_core.store.reading import RECOMPUTED, reading, size_of
from grpo_core.store.schemas import SCHEMA_VERSION, TABLES

CURRENT = "CURRENT"
_LIBRARIES = ("torch", "transformers", "pyarrow", "polars", "duckdb", "numpy", "vllm")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a stage wants to publish.

    Args:
        kind: Kind of artefact.
        stage: Stage that made it.
        key: Full key.
        payload: What the key is the hash of; `plan` explains misses with it.
        tables: Table name → rows; conformed to their schemas on publishing.
        directories: Name → directory to move in. A model directory's digest is that of the model;
            its name starts with `checkpoint`. Others are hashed file by file.
        side_directories: Like `directories`, but in no digest (step checkpoints).
        aspects: Digests of parts of the content that later keys depend on alone.
        figures: Small numbers for summaries; functions of the content.
        seconds: Wall seconds of the making.
        tokens: Tokens generated in the making.
    """

    kind: str
    stage: str
    key: str
    payload: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    directories: Mapping[str, Path] = field(default_factory=dict)
    side_directories: Mapping[str, Path] = field(default_factory=dict)
    aspects: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Artifact:
    """One complete generation on disk."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Full key."""
        return str(self.manifest["key"])

    @property
    def content(self) -> str:
        """Full content digest."""
        return str(self.manifest["content"])

    def aspect(self, name: str) -> str:
        """Digest of the named part of the content; `content` is the whole."""
        return self.content if name == "content" else str(self.manifest["aspects"][name])

    def files(self, table: str) -> list[Path]:
        """Parquet parts of a table, in order."""
        return [self.path / name for name in self.manifest["tables"][table]["files"]]

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """Read a table (or some of its columns), rows in declared sort order."""
        return read_parts(self.files(name), TABLES[name], key=self.key, columns=columns)

    def directory(self, name: str) -> Path:
        """A directory of the artefact, such as `checkpoint`."""
        return self.path / name


class ArtifactStore:
    """Publishes and finds artefacts below a lake's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digests = FileDigests(root / ".digests")

    def key_directory(self, stage: str, key: str) -> Path:
        """Where the generations of a key lie."""
        return self.root / "artifacts" / stage / key

    def make_key_directory(self, stage: str, key: str) -> Path:
        """The directory of a key, made when it is not there; a link out of the lake goes."""
        directory = self.key_directory(stage, key)
        if directory.is_symlink():
            self.discard(directory)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def current(self, stage: str, key: str) -> Artifact | None:
        """The generation in force, checked; None when there is none.

        Raises:
            ArtifactError: There is one, but it is damaged.
            FileUnreadableError: The system does not let it be read.
        """
        name = read_current(self.key_directory(stage, key))
        return self.generation(stage, key, name) if name else None

    def generation(self, stage: str, key: str, content: str) -> Artifact:
        """The generation with this content digest, checked.

        Raises:
            ArtifactError: It is missing or damaged.
            FileUnreadableError: The system does not let it be read.
        """
        path = self.key_directory(stage, key) / content[:CONTENT_CHARACTERS]
        artifact = read_artifact(path)
        if artifact.key != key:
            raise ArtifactError(f"{path} holds the artefact of key {artifact.key}, not of {key}")
        check_files(artifact, self.digests)
        return artifact

    def publish(self, draft: Draft) -> Artifact:
        """Make the draft a generation and the current one.

        A generation with equal content is already there when a forced stage made the same rows:
        then it stays and nothing downstream changes.
        """
        staging = self.root / ".staging" / uuid.uuid4().hex
        staging.mkdir(parents=True)
        try:
            manifest = self._stage(staging, draft)
            target = self.make_key_directory(draft.stage, draft.key)
            final = target / str(manifest["content"])[:CONTENT_CHARACTERS]
            self.settle(staging, final)
            write_text(target / CURRENT, final.name + "\n")
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return read_artifact(final)

    def remember_files(self, artifact: Artifact) -> None:
        """Remember the digests of a fresh artefact, once nothing else links to its files."""
        for name, facts in artifact.manifest["files"].items():
            self.digests.record(artifact.path / name, facts["sha256"])

    def settle(self, staging: Path, final: Path) -> bool:
        """Rename a staged directory to its place, moving a damaged namesake to the trash.

        Returns whether it was not there yet.
        """
        if final.exists():
            try:
                check_files(read_artifact(final), self.digests)
            except ArtifactError:
                self.discard(final)
            else:
                return False
        os.rename(staging, final)
        fsync_directory(final.parent)
        return True

    def discard(self, path: Path) -> Path:
        """Move a directory to the trash, which gc empties; returns where it is."""
        trash = self.root / ".trash" / f"{path.name}-{uuid.uuid4().hex[:8]}"
        trash.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, trash)
        return trash

    def _stage(self, staging: Path, draft: Draft) -> dict[str, Any]:
        tables: dict[str, Any] = {}
        digests: dict[str, str] = {}
        for name, rows in draft.tables.items():
            tables[name], digest = self._stage_table(staging, draft.key, name, rows)
            if digest:
                digests[name] = digest
        for name, source in {**draft.directories, **draft.side_directories}.items():
            shutil.copytree(source, staging / name, copy_function=link_or_copy)
            if name in draft.directories:
                digests[name] = _directory_digest(staging / name)
        manifest = self._manifest(draft, tables, digests)
        manifest["files"] = self._file_list(staging)
        write_manifest(staging, manifest)
        return manifest

    def _stage_table(
        self, staging: Path, key: str, name: str, rows: pa.Table
    ) -> tuple[dict[str, Any], str]:
        spec = TABLES[name]
        table = conform(rows, spec)
        files = []
        for part, piece in enumerate(split_parts(table)):
            relative = f"tables/{name}/part-{part:05d}.parquet"
            write_part(staging / relative, piece, spec, key=key, part=part)
            files.append(relative)
        digest = table_digest(table, spec) if spec.in_digest else ""
        return {"rows": table.num_rows, "files": files, "digest": digest}, digest

    def _manifest(
        self, draft: Draft, tables: dict[str, Any], digests: dict[str, str]
    ) -> dict[str, Any]:
        directory_digests = {name: digests[name] for name in draft.directories}
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": draft.kind,
            "stage": draft.stage,
            "key": draft.key,
            "content": content_digest(draft.kind, digests),
            "aspects": {**directory_digests, **draft.aspects},
            "payload": draft.payload,
            "tables": tables,
            "figures": dict(draft.figures),
            "seconds": round(draft.seconds, 3),
            "tokens": draft.tokens,
            "libraries": library_versions(),
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _file_list(self, staging: Path) -> dict[str, Any]:
        files = {}
        for path in sorted(p for p in staging.rglob("*") if p.is_file()):
            fsync_file(path)
            files[str(path.relative_to(staging))] = {
                "bytes": path.stat().st_size,
                "sha256": sha256_file(path),
            }
        return files


def _directory_digest(directory: Path) -> str:
    if directory.name.startswith("checkpoint"):
        return model_digest(directory, FileDigests(None))
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return sha256_json({str(path.relative_to(directory)): sha256_file(path) for path in files})


def read_current(key_directory: Path) -> str:
    """Name of the generation of a key that is in force; empty when there is none.

    Raises:
        ArtifactError: CURRENT is damaged.
        FileUnreadableError: The system does not let it be read.
    """
    pointer = key_directory / CURRENT
    try:
        with reading(pointer):
            name = pointer.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    if not name:
        raise ArtifactError(f"{pointer} is empty", hint=RECOMPUTED)
    return name


def read_artifact(path: Path) -> Artifact:
    """Read a generation's manifest; its presence means that the generation is complete.

    Raises:
        ArtifactError: No manifest, one that is damaged, or a link out of the lake.
        FileUnreadableError: The system does not let it be read.
    """
    out_of_lake = "run the stage again: an artefact out of the lake is not used"
    refuse_links(path.parents[3], path, hint=out_of_lake)
    return Artifact(path, read_manifest(path))


def check_files(
    artifact: Artifact, digests: FileDigests, *, is_every_file_hashed: bool = True
) -> None:
    """Compare every file with the manifest: present, size and sha256.

    Args:
        artifact: Whose files.
        digests: Remembered digests; a file that did not change since it was hashed is not read.
        is_every_file_hashed: False hashes only Parquet files that changed since they were hashed,
            and leaves those alone that never were.

    Raises:
        ArtifactError: Names the first file that is missing, torn or changed.
        FileUnreadableError: The system does not let one be read.
    """
    files = artifact.manifest["files"]
    check_places(artifact.path, files)
    for name, expected in files.items():
        path = artifact.path / name
        size = size_of(path)
        if size != expected["bytes"]:
            raise ArtifactError(
                f"{path} has {size} bytes, expected {expected['bytes']}", hint=RECOMPUTED
            )
        if not is_every_file_hashed and path.suffix != ".parquet":
            continue
        look_up = digests.digest if is_every_file_hashed else digests.digest_if_known
        if sha256_of(path, look_up) not in (None, expected["sha256"]):
            raise ArtifactError(f"{path} does not have the sha256 of its manifest", hint=RECOMPUTED)


def library_versions() -> dict[str, str]:
    """Versions of the libraries that can move a result, without importing them."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
