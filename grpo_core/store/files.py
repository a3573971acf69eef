"""Files that are either complete or absent, and digests of files that nobody hashes twice."""

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from grpo_core.errors import ConfigError

_CHUNK_BYTES = 1 << 22
_GLOB_TRIES = 20
_CTIME = 3
"""Where the ctime stands in the identity of a file."""
_LONGEST_STEM = 200
"""Bytes; file systems take names of 255, and a suffix follows."""
_NO_PLACE = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
    errno.ENXIO,
)
"""Errors of names where no file can be; permission and space are faults of the machine."""


@contextmanager
def naming_errors(label: str) -> Iterator[None]:
    """Turn the error of a name that a person gave and no file can have into the product's.

    Args:
        label: What the name is, and the name.

    Raises:
        ConfigError: There can be no such file.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise ConfigError(
            f"{label}: {os.strerror(error.errno)}",
            hint="name a file in a directory where files can be made",
        ) from error


def hidden_stem(name: str) -> str:
    """How names of hidden files beside `name` begin: so, or with its digest when it is long."""
    data = os.fsencode(name)
    is_short = len(data) <= _LONGEST_STEM
    return f".{name}" if is_short else f".{hashlib.sha256(data).hexdigest()[:32]}"


def fsync_directory(path: Path) -> None:
    """Make renames inside `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Make the bytes of `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a temporary sibling, fsync it and rename it over `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        write(temporary)
        fsync_file(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def link_or_copy(source: str, target: str) -> None:
    """Hard-link an immutable file; copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def glob_stable(root: Path, pattern: str) -> list[Path]:
    """Sorted matches below a tree that others change: a directory may vanish during the walk."""
    for _ in range(_GLOB_TRIES):
        try:
            return sorted(root.glob(pattern))
        except FileNotFoundError:
            continue
    return sorted(root.glob(pattern))


def sha256_file(path: Path) -> str:
    """sha256 of the bytes, 64 hex digits."""
    hasher = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return hasher.hexdigest()


class FileDigests:
    """Digests of files, remembered by (real path, size, mtime, ctime, inode).

    Args:
        directory: Where the memory lives (`lake/.digests`); disposable. None remembers nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory

    def digest(self, path: Path) -> str:
        """sha256 of the file; hashed only when its identity changed since the last time."""
        if self.directory is None:
            return sha256_file(path)
        memory, identity = _locate(self.directory, path)
        remembered = _recall(memory)
        return self._again(path) if remembered.identity != identity else remembered.sha256

    def digest_if_known(self, path: Path) -> str | None:
        """Like `digest`, but None for a file that was never hashed.

        Where no digest can be remembered, a file of which only the ctime differs, as after `chmod`
        of the whole lake, counts as unchanged: else each query would hash it again.
        """
        if self.directory is None:
            return None
        memory, identity = _locate(self.directory, path)
        remembered = _recall(memory)
        if remembered.identity is None:
            return None
        is_same = remembered.identity == identity or (
            _without_ctime(remembered.identity) == _without_ctime(identity)
            and not os.access(self.directory, os.W_OK)
        )
        return remembered.sha256 if is_same else self._again(path)

    def _again(self, path: Path) -> str:
        sha256 = sha256_file(path)
        self.record(path, sha256)
        return sha256

    def record(self, path: Path, sha256: str) -> None:
        """Remember a digest that is known; a read-only lake hashes again next time."""
        if self.directory is not None:
            memory, identity = _locate(self.directory, path)
            with suppress(OSError):
                write_json(memory, {"identity": identity, "sha256": sha256})


def _locate(directory: Path, path: Path) -> tuple[Path, list[Any]]:
    real = path.resolve(strict=True)
    status = real.stat()
    identity = [str(real), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    name = hashlib.sha256(str(real).encode()).hexdigest()[:24]
    return directory / f"{name}.json", identity


def _without_ctime(identity: list[Any]) -> list[Any]:
    return identity[:_CTIME] + identity[_CTIME + 1 :]


class _Remembered(NamedTuple):
    """A file's identity when it was hashed, None when there is no record, and its sha256."""

    identity: list[Any] | None
    sha256: str


def _recall(memory: Path) -> _Remembered:
    """What is remembered of a file; a torn record is none."""
    try:
        record = read_json(memory)
        return _Remembered(list(record["identity"]), str(record["sha256"]))
    except (OSError, ValueError, KeyError, TypeError):
        return _Remembered(None, "")
