"""The tar archive of an export: which files are in it, and that they arrived as they were."""

import errno
import fcntl
import os
import re
import shutil
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.files import (
    fsync_directory,
    fsync_file,
    hidden_stem,
    naming_errors,
    read_json,
    sha256_file,
)
from grpo_core.store.lake import is_run_name

EXPORT = "export.json"
EXPORT_VERSION = 1
_DAMAGED = "copy the file again; only what grpo lake export writes can be imported"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of file systems that lock nothing."""
_SHOWN_CHARACTERS = 60


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
    with claimed_beside(target) as temporary:
        with tarfile.open(temporary, "w") as archive:
            archive.dereference = True  # files that are links to one another are files of their own
            for name, path in members.items():
                archive.add(path, name, recursive=False)
        fsync_file(temporary)
        os.replace(temporary, target)
    fsync_directory(target.parent)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """A directory beside the archive for what goes into it; gone in the end, see below."""
    with claimed_beside(target) as guard:
        path = _scratch_of(guard)
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def claimed_beside(target: Path) -> Iterator[Path]:
    """An empty hidden file beside `target`, gone in the end unless it was renamed.

    It is locked for as long as this process lives. What a killed process has left there is locked
    by nobody, and removed first, together with its scratch directory; on a file system without
    locks nobody knows whether a writer lives, and it stays.

    Raises:
        ConfigError: No file can be there.
    """
    with naming_errors(str(target)):
        target.parent.mkdir(parents=True, exist_ok=True)
        name = re.compile(rf"{re.escape(_stem(target))}[0-9a-f]{{8}}")
        for path in sorted(target.parent.iterdir()):
            if name.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                _remove_if_abandoned(path)
        temporary, descriptor = _claim(target)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _stem(target: Path) -> str:
    """How claimed names begin; the word in it keeps them apart from what people name by date."""
    return f"{hidden_stem(target.name)}.export-"


def _claim(target: Path) -> tuple[Path, int]:
    while True:
        path = target.with_name(f"{_stem(target)}{uuid.uuid4().hex[:8]}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        with suppress(
            BlockingIOError
        ):  # another export looks whether it is abandoned, or removes it
            _lock(descriptor)
            if os.fstat(descriptor).st_nlink:  # else it was removed before it was locked
                return path, descriptor
        os.close(descriptor)


def _remove_if_abandoned(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except (FileNotFoundError, PermissionError):  # gone meanwhile, or another user's
        return
    try:
        with suppress(BlockingIOError):
            if _lock(descriptor):
                shutil.rmtree(_scratch_of(path), ignore_errors=True)
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file; False where the file system has no locks.

    Raises:
        BlockingIOError: A living process has it locked.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def _scratch_of(guard: Path) -> Path:
    """The directory that goes with a claimed file."""
    return guard.with_name(f"{guard.name}.rows")


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
    except (tarfile.TarError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ArtifactError(
            f"{source} cannot be read as an export: {error}", hint=_DAMAGED
        ) from error
    return _checked_record(source, scratch)


def _checked_record(source: Path, scratch: Path) -> dict[str, Any]:
    path = scratch / EXPORT
    if not path.is_file():
        raise ArtifactError(f"{source} holds no {EXPORT}", hint="make it with grpo lake export")
    try:
        record = read_json(path)
    except (ValueError, RecursionError) as error:
        raise _no_record(source, f"is no JSON: {error}") from error
    if not isinstance(record, dict):
        raise _no_record(source, f"is {_shown(record)}, expected an object")
    if record.get("version") != EXPORT_VERSION:
        raise _no_record(
            source, f"version: {_shown(record.get('version'))}, expected {EXPORT_VERSION}"
        )
    run = record.get("run")
    if not isinstance(run, str) or not is_run_name(run):
        raise _no_record(source, f"run: {_shown(run)} is not a run name")
    if not isinstance(record.get("files"), dict):
        raise _no_record(source, f"files: {_shown(record.get('files'))}, expected an object")
    path.unlink()
    there = members_below(scratch, (file for file in scratch.rglob("*") if file.is_file()))
    found = {name: member.facts() for name, member in there.items()}
    for name in sorted({*record["files"], *found}):
        if found.get(name) != record["files"].get(name):
            raise ArtifactError(
                f"{source}: {name} is missing, changed or not listed", hint=_DAMAGED
            )
    return record


def _no_record(source: Path, what: str) -> ArtifactError:
    return ArtifactError(f"{source}: {EXPORT}: {what}", hint=_DAMAGED)


def _shown(value: object) -> str:
    """A value of an archive of whatever origin, in a part of a line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
