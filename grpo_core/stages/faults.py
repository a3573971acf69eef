"""Faults of the machine that come as anybody's exception, named as what they are."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from grpo_core.errors import (
    DiskFullError,
    FileUnreadableError,
    FileUnwritableError,
    GrpoError,
    OutOfMemoryError,
)

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_PERMISSION = (errno.EACCES, errno.EPERM)
_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def machine_fault(error: Exception) -> GrpoError | None:
    """The error of ours that says what `error` means for the machine; None when nothing."""
    if isinstance(error, GrpoError):
        return None
    text = str(error)
    is_write = isinstance(error, OSError) and error.errno in _DISK_FULL
    if is_write or "No space left on device" in text:
        return DiskFullError(
            f"the disk is full: {text}",
            hint="`grpo lake gc` lists what no run uses; what is complete is kept",
        )
    if isinstance(error, OSError) and error.filename and isinstance(error.filename, (str, bytes)):
        return _access_fault(error)
    if isinstance(error, MemoryError) or any(part in text.lower() for part in _NO_MEMORY):
        return OutOfMemoryError(
            f"out of memory: {text.splitlines()[0] if text else type(error).__name__}",
            hint="lower execution.micro_batch_rows or logits_chunk_tokens (same results), "
            "or sampling.rows_per_batch or score_rows (new keys)",
        )
    return None


def _access_fault(error: OSError) -> GrpoError | None:
    """The file system or its permissions, which say nothing about what lies in the files."""
    path = os.fsdecode(error.filename)
    is_refused = error.errno in _NO_PERMISSION
    if error.errno == errno.EROFS or (is_refused and _is_readable(path) and not _is_writable(path)):
        return FileUnwritableError(
            f"{path} cannot be written: {error.strerror}",
            hint="a lake that cannot be written can be read: grpo plan, sql, audit, "
            "lake verify, lake gc without --remove, lake export to another place",
        )
    if is_refused:
        return FileUnreadableError(
            f"{path} cannot be opened: {error.strerror}", hint="check who owns it and its mode"
        )
    return None


def _is_writable(path: str) -> bool:
    """Whether permissions allow to write a file, or to make it in the directory that is there."""
    return os.access(_nearest(path), os.W_OK)


def _is_readable(path: str) -> bool:
    """Whether permissions allow to read a file, or to look for it in the directory that is there.

    What may not be read is named so, also when it may not be written either.
    """
    nearest = _nearest(path)
    return os.access(nearest, os.R_OK if nearest == path else os.X_OK)


def _nearest(path: str) -> str:
    """The path, or of the directories above it the first that can be seen."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


@contextmanager
def machine_faults_named() -> Iterator[None]:
    """A fault of the machine inside the block is raised as the error of ours that names it.

    Raises:
        DiskFullError: A write found no room.
        FileUnreadableError: Permission to read a file is missing.
        FileUnwritableError: A file system is read-only, or permission is missing.
        OutOfMemoryError: Memory ran out.
    """
    try:
        yield
    except Exception as error:
        fault = machine_fault(error)
        if fault is None:
            raise
        raise fault from error
