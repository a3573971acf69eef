"""Faults of the machine that come as anybody's exception, named as what they are."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from grpo_core.errors import DiskFullError, GrpoError, OutOfMemoryError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
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
    if isinstance(error, MemoryError) or any(part in text.lower() for part in _NO_MEMORY):
        return OutOfMemoryError(
            f"out of memory: {text.splitlines()[0] if text else type(error).__name__}",
            hint="lower execution.micro_batch_rows or logits_chunk_tokens (same results), "
            "or sampling.rows_per_batch or score_rows (new keys)",
        )
    return None


@contextmanager
def machine_faults_named() -> Iterator[None]:
    """A fault of the machine inside the block is raised as the error of ours that names it.

    Raises:
        DiskFullError: A write found no room.
        OutOfMemoryError: Memory ran out.
    """
    try:
        yield
    except Exception as error:
        fault = machine_fault(error)
        if fault is None:
            raise
        raise fault from error
