"""Looking up rows of one part of the reference cache, by row number and key."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from grpo_core.errors import ArtifactError
from grpo_core.store.ref_parts import GROUPS_AT_ONCE, ROWS_PER_GROUP, open_part
from grpo_core.store.ref_rows import Logprobs

MOST_READERS = 4
"""Threads that decode one part: Arrow decodes the row groups of one reader one after another."""
_READ = ["row_key", "logprobs", "scored_by"]

Lengths = npt.NDArray[np.int64]


class ForeignIndexError(ArtifactError):
    """An index that is not that of its part; it can be made again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows that are sought in one part.

    Args:
        keys: Keys that the rows must have.
        positions: Their row numbers in the part.
        lengths: Log-probs that each must have; None where that is not known.
    """

    keys: Sequence[str]
    positions: npt.NDArray[np.int64]
    lengths: Lengths | None


@dataclass(frozen=True, slots=True)
class PartRows:
    """Rows found in one part.

    Args:
        logprobs: One fp32 array [T] a row.
        scored_by: Who scored each row.
    """

    logprobs: list[Logprobs]
    scored_by: list[str]


def read_rows(directory: Path, name: str, fingerprint: str, wanted: Wanted) -> PartRows:
    """Read some rows of a part.

    Args:
        directory: The cache's.
        name: Of the part.
        fingerprint: Of the cache.
        wanted: The rows.

    Raises:
        ArtifactError: The part is damaged, belongs to another cache, or holds other rows.
        FileUnreadableError: The system does not let it be read.
        FileNotFoundError: It is gone: compaction replaced it.
    """
    path = directory / f"{name}.parquet"
    order = np.argsort(wanted.positions, kind="stable")
    positions = wanted.positions[order]
    groups = positions // ROWS_PER_GROUP
    keys = pa.array(wanted.keys, pa.string())
    rows = PartRows([np.empty(0, np.float32)] * len(keys), [""] * len(keys))

    def read(share: npt.NDArray[np.int64]) -> None:
        with open_part(path, fingerprint) as file:
            for start in range(0, share.size, GROUPS_AT_ONCE):
                portion = share[start : start + GROUPS_AT_ONCE]
                sought = slice(*np.searchsorted(groups, [portion[0], portion[-1] + 1]))
                in_portion = np.searchsorted(portion, groups[sought]) * ROWS_PER_GROUP
                local = in_portion + positions[sought] % ROWS_PER_GROUP
                taken = _take(path, file.read_row_groups(portion.tolist(), _READ), local)
                slots = order[sought]
                _check_rows(path, taken, keys.take(pa.array(slots)), wanted.lengths, slots)
                _fill(rows, slots, taken)

    present = np.unique(groups)
    readers = max(min(pa.cpu_count(), MOST_READERS, -(-present.size // GROUPS_AT_ONCE)), 1)
    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(read, np.array_split(present, readers)))  # each fills slots of its own
    return rows


def _take(path: Path, table: pa.Table, local: npt.NDArray[np.int64]) -> pa.Table:
    """The local rows of a decoded portion, in one chunk."""
    if local.size and local.max() >= table.num_rows:
        raise ForeignIndexError(f"{path}: the index names row {local.max()} of {table.num_rows}")
    is_whole = local.size == table.num_rows and bool((np.diff(local) == 1).all())
    return (table if is_whole else table.take(local)).combine_chunks()


def _check_rows(
    path: Path,
    taken: pa.Table,
    keys: pa.StringArray,
    lengths: Lengths | None,
    slots: npt.NDArray[np.int64],
) -> None:
    """Refuse rows that are not those that were sought."""
    if not taken.column("row_key").chunk(0).equals(keys):
        raise ForeignIndexError(f"{path}: the index does not belong to this part")
    if lengths is None:
        return
    found = np.diff(taken.column("logprobs").chunk(0).offsets.to_numpy())
    wrong = np.flatnonzero(found != lengths[slots])
    if wrong.size:
        first = int(wrong[0])
        raise ArtifactError(
            f"{path}: row {keys[first]} has {found[first]} log-probs, expected "
            f"{lengths[slots[first]]}"
        )


def _fill(rows: PartRows, slots: npt.NDArray[np.int64], taken: pa.Table) -> None:
    """Put what was taken into its slots."""
    column = taken.column("logprobs").chunk(0)
    borders, flat = column.offsets.to_numpy().tolist(), column.values.to_numpy()
    lines = [flat[start:end] for start, end in pairwise(borders)]
    writers = taken.column("scored_by").to_pylist()
    if (np.diff(slots) == 1).all():  # asked for in order of writing
        there = slice(int(slots[0]), int(slots[-1]) + 1)
        rows.logprobs[there], rows.scored_by[there] = lines, writers
        return
    for slot, line, writer in zip(slots.tolist(), lines, writers, strict=True):
        rows.logprobs[slot] = line
        rows.scored_by[slot] = writer
