"""Which parts of a reference cache are in force, and merges that a crash cannot tear.

A merge notes in `merging.json` which parts it replaces, writes the new part, lists the old ones in
`replaced.json` and forgets the note. Whoever holds the cache's lock next completes what a killed
process left, or forgets it when the new part is not there.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_core.store.files import read_json, write_json
from grpo_core.store.reading import reading

REPLACED_SECONDS = 600
"""How long a replaced part stays for queries that have listed it."""
_MERGING, _REPLACED = "merging.json", "replaced.json"


def list_parts(directory: Path) -> list[str]:
    """Names of the parts in force, in order of writing."""
    replaced = read_replaced(directory)
    names = (path.stem for path in directory.glob("part-*.parquet"))
    return sorted(name for name in names if name not in replaced)


def read_replaced(directory: Path) -> dict[str, float]:
    """Parts that a merge replaced → when."""
    return dict(_read_note(directory / _REPLACED) or {})


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
    merging = directory / _MERGING
    note = _read_note(merging)
    if note is None:
        return
    if _present(directory) - set(note["before"]):  # the merged part was renamed into place
        _retire(directory, note["parts"])
    merging.unlink()


def size_class(num_bytes: int) -> int:
    """Class of a part by its size: eight parts of one make one of the next."""
    return (num_bytes.bit_length() - 1) // 3


def _read_note(path: Path) -> Any:
    """What a note of this module says; None when there is none."""
    try:
        with reading(path, hint="remove the cache directory; it is computed again"):
            return read_json(path)
    except FileNotFoundError:
        return None


def _present(directory: Path) -> set[str]:
    return {path.stem for path in directory.glob("part-*.parquet")}


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
