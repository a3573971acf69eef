"""The tar archive of an export: which files are in it, and that they arrived as they were."""

import os
import tarfile
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.files import fsync_directory, fsync_file, read_json, sha256_file
from grpo_core.store.lake import is_run_name

EXPORT = "export.json"
EXPORT_VERSION = 1
_DAMAGED = "copy the file again"


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive.

    Args:
        path: Where it lies now.
        num_bytes: Its size.
        sha256: Digest of its bytes.
    """

    path: Path
    num_bytes: int
    sha256: str

    def facts(self) -> dict[str, Any]:
        """What export.json says of it."""
        return {"bytes": self.num_bytes, "sha256": self.sha256}


def members_below(root: Path, names: Iterable[Path]) -> dict[str, Member]:
    """Files by their name from `root`, hashed now."""
    return {
        path.relative_to(root).as_posix(): Member(path, path.stat().st_size, sha256_file(path))
        for path in sorted(names)
    }


def pack(members: Mapping[str, Path], target: Path) -> None:
    """Write the archive in full, then rename it to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        with tarfile.open(temporary, "w") as archive:
            archive.dereference = True  # files that are links to one another are files of their own
            for name, path in members.items():
                archive.add(path, name, recursive=False)
        fsync_file(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(target.parent)


def unpack(source: Path, scratch: Path) -> dict[str, Any]:
    """Unpack an archive and compare every file with export.json, which it returns and removes.

    Raises:
        ArtifactError: It is no export, holds anything but files and directories, or a file of it is
            missing, changed or not listed.
    """
    try:
        with tarfile.open(source, "r:") as archive:
            for member in archive:
                if not (member.isfile() or member.isdir()):
                    raise ArtifactError(
                        f"{source}: {member.name} is a link or a device, expected a file",
                        hint="make the archive with grpo lake export",
                    )
            archive.extractall(scratch, filter="data")
    except (tarfile.TarError, FileNotFoundError) as error:
        raise ArtifactError(
            f"{source} cannot be read as an export: {error}", hint=_DAMAGED
        ) from error
    return _checked_record(source, scratch)


def _checked_record(source: Path, scratch: Path) -> dict[str, Any]:
    path = scratch / EXPORT
    if not path.is_file():
        raise ArtifactError(f"{source} holds no {EXPORT}", hint="make it with grpo lake export")
    record: dict[str, Any] = read_json(path)
    if record.get("version") != EXPORT_VERSION:
        raise ArtifactError(
            f"{source} has export version {record.get('version')}, expected {EXPORT_VERSION}"
        )
    if not is_run_name(str(record.get("run"))):
        raise ArtifactError(f"{source}: {EXPORT}: run: {record.get('run')!r} is not a run name")
    path.unlink()
    there = members_below(scratch, (file for file in scratch.rglob("*") if file.is_file()))
    found = {name: member.facts() for name, member in there.items()}
    for name in sorted({*record["files"], *found}):
        if found.get(name) != record["files"].get(name):
            raise ArtifactError(
                f"{source}: {name} is missing, changed or not listed", hint=_DAMAGED
            )
    return record
