"""Indices of cache parts: which row of a part has which key.

```
part-00000012-3f9c….index.npy    uint64 [3, rows]: key halves, ascending by the first; row number
```

An index can always be made again from its part, whose footer holds the digest of the index.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from grpo_core.store.files import write_atomically
from grpo_core.store.reading import entries_in

SUFFIX = ".index.npy"

_NO_ROW = np.uint64(2**62)
"""More than any part has: a damaged index that names such a row must not look like a miss."""

Index = npt.NDArray[np.uint64]
Keys = npt.NDArray[np.uint64]


def key_halves(keys: Sequence[str]) -> Keys:
    """Row keys of 32 hex digits as uint64 [2, rows]."""
    packed = np.frombuffer(bytes.fromhex("".join(keys)), dtype=">u8").reshape(-1, 2)
    return np.ascontiguousarray(packed.T.astype(np.uint64))


def build_index(keys: Sequence[str]) -> Index:
    """Index of a part whose rows have these keys, in order."""
    high, low = key_halves(keys)
    order = np.argsort(high)
    return np.stack([high[order], low[order], order.astype(np.uint64)])


def search(index: Index, keys: Keys) -> npt.NDArray[np.int64]:
    """Row number of each key, -1 where the index has none; touches O(log rows) of it a key."""
    high, low = index[0], index[1]
    order = np.argsort(keys[0])  # neighbours are sought in the same pages: several times faster
    position = np.empty(keys.shape[1], dtype=np.int64)
    position[order] = np.searchsorted(high, keys[0][order])
    found = np.full(keys.shape[1], -1, dtype=np.int64)
    open_keys = np.arange(keys.shape[1])
    while open_keys.size:  # more than once only where two keys share their first 64 bits
        at = position[open_keys]
        inside = at < high.size
        open_keys, at = open_keys[inside], at[inside]
        alike = high[at] == keys[0][open_keys]
        open_keys, at = open_keys[alike], at[alike]
        hit = low[at] == keys[1][open_keys]
        found[open_keys[hit]] = np.minimum(index[2][at[hit]], _NO_ROW).astype(np.int64)
        open_keys = open_keys[~hit]
        position[open_keys] += 1
    return found


def write_index(directory: Path, name: str, index: Index) -> None:
    """Write the index of a part."""

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            np.save(stream, index, allow_pickle=False)

    write_atomically(directory / f"{name}{SUFFIX}", write)


def load_index(directory: Path, name: str) -> Index | None:
    """The index of a part, mapped into memory; None when it is missing or torn."""
    try:
        index = np.load(directory / f"{name}{SUFFIX}", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    is_index = index.ndim == 2 and index.shape[0] == 3 and index.dtype == np.uint64
    return index if is_index else None


def has_index(directory: Path, name: str) -> bool:
    """Whether a part has an index, whatever it holds."""
    return (directory / f"{name}{SUFFIX}").is_file()


def identity(directory: Path, name: str) -> tuple[tuple[int, ...], ...] | None:
    """What changes when a part or its index does; None when one is missing."""
    try:
        found = [os.lstat(directory / f"{name}{end}") for end in (".parquet", SUFFIX)]
    except OSError:
        return None
    return tuple((s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for s in found)


def index_digest(index: Index) -> str:
    """sha256 of an index, 64 hex digits."""
    return hashlib.sha256(np.ascontiguousarray(index).reshape(-1).data).hexdigest()


def orphaned_indices(directory: Path) -> list[Path]:
    """Indices in a cache directory whose part is gone."""
    names = (
        path.name.removesuffix(SUFFIX)
        for path in entries_in(directory)
        if path.name.startswith("part-") and path.name.endswith(SUFFIX)
    )
    return sorted(
        directory / f"{name}{SUFFIX}"
        for name in names
        if not (directory / f"{name}.parquet").is_symlink()
        and not (directory / f"{name}.parquet").exists()
    )
