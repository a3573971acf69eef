"""Which parts of a reference cache are in force, and merges that a crash cannot tear.

A merge notes in `merging.json` which parts it replaces, writes the new part, lists the old ones in
`replaced.json` and forgets the note. Whoever holds the cache's lock next completes what a killed
process left, or forgets it when the new part is not there.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.files import read_json, write_json
from grpo_core.store.reading import entries_in, reading

logger = logging.getLogger(__name__)

MERGED_PARTS = 8
BYTES_PER_PART = 128 << 20
"""No merge makes a larger part, so that a merge fits into memory."""
REPLACED_SECONDS = 600
"""How long a replaced part stays for queries that have listed it."""
_MERGING, _REPLACED = "merging.json", "replaced.json"
_LOST = "remove that file: at worst rows are stored twice until grpo lake compact"


def list_parts(directory: Path) -> list[str]:
    """Names of the parts in force, in order of writing.

    A merge that has renamed its part into place counts as done, also when its process died then.

    Raises:
        ArtifactError: A note of this module is damaged.
    """
    replaced = read_replaced(directory)
    while True:
        names = _present(directory)
        note = _read_merging(directory)
        before, replaced = replaced, read_replaced(directory)
        if before == replaced:  # else a merge ended between the looks, and its part may be unseen
            break
    merged = set(note["parts"]) if note and names - set(note["before"]) else set()
    return sorted(names - replaced.keys() - merged)


def sequence_of(name: str) -> int:
    """Place of a part in the order of writing."""
    return int(name.split("-")[1])


def names_to_merge(num_bytes: Mapping[str, int]) -> list[str]:
    """The first eight parts of one size class, by the sizes of all; none when no class is full."""
    classes: dict[int, list[str]] = {}
    for name, size in num_bytes.items():
        classes.setdefault((size.bit_length() - 1) // 3, []).append(name)
    for names in classes.values():
        first = names[:MERGED_PARTS]
        if len(first) == MERGED_PARTS and sum(num_bytes[name] for name in first) <= BYTES_PER_PART:
            return first
    return []


def batches_to_merge(num_bytes: Mapping[str, int]) -> Iterator[list[str]]:
    """All parts in their order, in as few batches as make parts of a bearable size."""
    batch: list[str] = []
    total = 0
    for name, size in num_bytes.items():
        if batch and total + size > BYTES_PER_PART:
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += size
    yield batch


@cache
def say_passed_over(problem: str) -> None:
    """Log what is wrong with a part, once in a process."""
    logger.warning("part is passed over: %s", problem)


def set_aside(directory: Path, names: Iterable[str]) -> None:
    """Keep the bytes of damaged parts under names that nobody reads; the lock is held."""
    for name in names:
        for end in (".parquet", ".index.npy"):
            path = directory / f"{name}{end}"
            with suppress(FileNotFoundError):  # another writer was faster
                path.rename(path.with_name(f"damaged-{path.name}"))


def read_replaced(directory: Path) -> dict[str, float]:
    """Parts that a merge replaced → when."""
    path = directory / _REPLACED
    note = _read_note(path)
    if not all(isinstance(since, int | float) for since in note.values()):
        raise _damaged(path)
    return note


@contextmanager
def merge(directory: Path, names: Sequence[str]) -> Iterator[None]:
    """Around the writing of one part that replaces others; the caller holds the cache's lock."""
    note = {"parts": list(names), "before": sorted(_present(directory))}
    write_json(directory / _MERGING, note)
    yield
    _retire(directory, names)
    (directory / _MERGING).unlink()


def finish_merge(directory: Path) -> None:
    """Complete or forget a merge whose process died."""
    note = _read_merging(directory)
    if not note:
        return
    if _present(directory) - set(note["before"]):  # the merged part was renamed into place
        _retire(directory, note["parts"])
    (directory / _MERGING).unlink()


def _read_merging(directory: Path) -> dict[str, Any]:
    """The note of a merge that has not ended; empty when there is none."""
    path = directory / _MERGING
    note = _read_note(path)
    if note and not all(isinstance(note.get(name), list) for name in ("parts", "before")):
        raise _damaged(path)
    return note


def _read_note(path: Path) -> dict[str, Any]:
    """What a note of this module says; empty when there is none."""
    try:
        with reading(path, hint=_LOST):
            note = read_json(path)
    except FileNotFoundError:
        return {}
    if not isinstance(note, dict):
        raise _damaged(path)
    return note


def _damaged(path: Path) -> ArtifactError:
    return ArtifactError(f"{path} is no note of a merge", hint=_LOST)


def _present(directory: Path) -> set[str]:
    return {
        path.stem
        for path in entries_in(directory)
        if path.name.startswith("part-") and path.suffix == ".parquet"
    }


def _retire(directory: Path, names: Sequence[str]) -> None:
    """List parts as replaced; those that were replaced long ago go."""
    now, kept = time.time(), {}
    for name, since in {**read_replaced(directory), **dict.fromkeys(names, now)}.items():
        if abs(now - since) < REPLACED_SECONDS:
            kept[name] = since
            continue
        (directory / f"{name}.index.npy").unlink(missing_ok=True)
        (directory / f"{name}.parquet").unlink(missing_ok=True)
    write_json(directory / _REPLACED, kept)
