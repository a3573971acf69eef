"""Whether files and directories lie where they must, inside the lake, and what files hash to."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from grpo_core.errors import ArtifactError
from grpo_core.store.reading import RECOMPUTED, reading


def sha256_of(path: Path, look_up: Callable[[Path], str | None]) -> str | None:
    """What `look_up` says of a file of an artefact.

    Raises:
        ArtifactError: It is missing, or its bytes cannot be what was written.
        FileUnreadableError: The system does not let it be read.
    """
    try:
        with reading(path):
            return look_up(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing", hint=RECOMPUTED) from error


def check_places(root: Path, names: Iterable[str]) -> None:
    """Refuse files out of the artefact at `root`: by their name, or behind a linked directory.

    Raises:
        ArtifactError: Names the first such file or directory.
    """
    for name in names:
        if os.path.isabs(name) or os.pardir in name.split("/"):
            raise ArtifactError(f"{root / name} lies outside of its artefact", hint=RECOMPUTED)
    for directory in sorted({directory for name in names for directory in _directories(name)}):
        path = root / directory
        if path.is_symlink():
            raise ArtifactError(f"{path} is a symbolic link, expected a directory", hint=RECOMPUTED)


def linked_directory(root: Path, path: Path) -> Path | None:
    """The first of the directories below `root` down to `path` that is a symbolic link."""
    names = path.relative_to(root).parts
    places = (root.joinpath(*names[: depth + 1]) for depth in range(len(names)))
    return next((place for place in places if place.is_symlink()), None)


def refuse_links(root: Path, path: Path, *, hint: str) -> None:
    """Refuse a directory that is not itself in the lake at `root`.

    Raises:
        ArtifactError: Names the symbolic link that leads to it.
    """
    if (link := linked_directory(root, path)) is not None:
        raise ArtifactError(f"{link} is a symbolic link, expected a directory", hint=hint)


def _directories(name: str) -> Iterator[str]:
    """Every directory that leads from an artefact to one of its files."""
    while name := name.rpartition("/")[0]:
        yield name
