"""Errors of reading: which prove that a file is damaged, and which only hinder reading it now.

Damage is made good by computing again, so nothing that may pass is taken for it: too few file
descriptors, no permission, a failing device and a network mount that is away say nothing about the
bytes.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from grpo_core.errors import ArtifactError, FileUnreadableError, GrpoError

RECOMPUTED = "run the stage again: a damaged artefact is recomputed"


@contextmanager
def reading(path: Path, *, hint: str = RECOMPUTED) -> Iterator[None]:
    """Around the reading of a file: errors say what they mean and name it.

    Args:
        path: The file.
        hint: What to do when it is damaged.

    Raises:
        ArtifactError: The bytes are not what the reader expects.
        FileUnreadableError: The system did not let them be read.
        FileNotFoundError: Passes as it is: what a missing file means depends on who asks.
        MemoryError: Passes as it is.
    """
    try:
        yield
    except (GrpoError, FileNotFoundError, MemoryError, pa.ArrowCancelled, pa.ArrowCapacityError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # Arrow's own errors have none
            raise FileUnreadableError(
                f"{path} cannot be read now: {error}",
                hint="nothing says that it is damaged, so nothing was computed again; "
                "run again when it can be read",
            ) from error
        raise ArtifactError(f"{path} cannot be read: {error}", hint=hint) from error


def entries_in(directory: Path) -> list[Path]:
    """What lies in a directory, sorted; nothing where there is none.

    `Path.glob` takes a directory that may not be read for an empty one.

    Raises:
        FileUnreadableError: The system does not let it be listed.
    """
    try:
        with reading(directory), os.scandir(directory) as found:
            return sorted(directory / entry.name for entry in found)
    except FileNotFoundError:
        return []
    except FileUnreadableError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return []
        raise


def size_of(path: Path, *, hint: str = RECOMPUTED) -> int:
    """Bytes of a regular file.

    Raises:
        ArtifactError: It is missing, a link or a directory.
        FileUnreadableError: The system does not say.
    """
    try:
        with reading(path, hint=hint):
            status = os.lstat(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing", hint=hint) from error
    if stat.S_ISLNK(status.st_mode):
        raise ArtifactError(f"{path} is a symbolic link, expected a file", hint=hint)
    if not stat.S_ISREG(status.st_mode):
        raise ArtifactError(f"{path} is not a regular file", hint=hint)
    return status.st_size
