"""`grpo lake verify` and `grpo lake gc`."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from grpo_core.errors import ArtifactError
from grpo_core.store.artifacts import check_files, read_artifact
from grpo_core.store.catalog import DamagedEntry
from grpo_core.store.files import FileDigests
from grpo_core.store.lake import Lake
from grpo_core.store.locks import hold_or_refuse


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that no run points to.

    Args:
        path: Directory, relative to the lake's root.
        num_bytes: Its size.
    """

    path: Path
    num_bytes: int


@contextmanager
def no_run_active(lake: Lake) -> Iterator[None]:
    """Hold the name of every run, so that nothing is published while the lake is cleaned.

    Raises:
        RunBusyError: A run is at work.
    """
    with ExitStack() as stack:
        for path in sorted((lake.root / "locks").glob("run-*.lock")):
            what = f"run name {path.stem.removeprefix('run-')!r}"
            stack.enter_context(hold_or_refuse(path, "grpo lake gc", what=what))
        yield


def verify(lake: Lake) -> tuple[int, list[DamagedEntry]]:
    """Hash every file of every artefact anew; returns how many artefacts and which are damaged."""
    damaged, count = [], 0
    for path in lake.generations():
        count += 1
        try:
            check_files(read_artifact(path), FileDigests(None))
        except ArtifactError as error:
            relative = str(path.relative_to(lake.root))
            stage, key = path.parent.parent.name, path.parent.name
            damaged.append(DamagedEntry(stage, key, relative, error.message))
    return count, damaged


def find_garbage(lake: Lake) -> list[Garbage]:
    """Generations that no run pins, staged leftovers and trash; work in progress is kept."""
    catalog = lake.catalog()
    pinned = {(row.key, row.content[:12]) for row in catalog.run_artifacts}
    paths = [path for path in lake.generations() if (path.parent.name, path.name) not in pinned]
    for name in (".trash", ".staging"):
        paths += sorted((lake.root / name).glob("*"))
    return [Garbage(path.relative_to(lake.root), _size(path)) for path in paths]


def remove_garbage(lake: Lake, garbage: list[Garbage]) -> None:
    """Remove what `find_garbage` found, and key directories that became empty."""
    for item in garbage:
        path = lake.root / item.path
        shutil.rmtree(path, ignore_errors=False)
        parent = path.parent
        if parent.parent.parent.name == "artifacts" and not any(_generations(parent)):
            shutil.rmtree(parent)


def _generations(key_directory: Path) -> Iterator[Path]:
    return (path for path in key_directory.iterdir() if path.is_dir())


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
