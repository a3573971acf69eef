"""Looking up rows of one part of the reference cache, by row number and key."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from threading import Event

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from grpo_core.errors import ArtifactError
from grpo_core.store.ref_index import Index, key_halves, search
from grpo_core.store.ref_parts import GROUPS_AT_ONCE, ROWS_PER_GROUP, SCHEMA, open_part
from grpo_core.store.ref_rows import Logprobs, RefRow

READERS_PER_CORE = 2
MOST_READERS = 4
"""Threads that decode one part: Arrow decodes the row groups of one reader one after another, and
while one slices its rows, which is Python, another decodes."""
_READ = ["row_key", "logprobs", "scored_by"]
_SCORED_BY = SCHEMA.get_field_index("scored_by")
"""Number of that column in a row group, as each column of the schema is one there."""
_KEYS_TRIED = 16
"""So many keys, evenly spaced, tell whether rows lie in the order in which they are asked for."""
_COMPLETION = attrgetter("completion_token_ids")


class ForeignIndexError(ArtifactError):
    """An index that is not that of its part; it can be made again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows that are sought in one part.

    Args:
        keys: Keys that the rows must have.
        positions: Their row numbers in the part.
        rows: The rows themselves, which tell how many log-probs each must have; empty where only
            the keys are known.
    """

    keys: Sequence[str]
    positions: npt.NDArray[np.int64]
    rows: Sequence[RefRow] = ()


@dataclass(frozen=True, slots=True)
class PartRows:
    """Rows found in one part.

    Args:
        logprobs: One fp32 array [T] a row.
        scored_by: Who scored each row.
    """

    logprobs: list[Logprobs]
    scored_by: list[str]


def read_together(
    directory: Path,
    fingerprint: str,
    indices: Mapping[str, Index],
    keys: Sequence[str],
    rows: Sequence[RefRow] = (),
) -> PartRows | None:
    """Rows that lie in one part one after the other, in this order; else None.

    What was written together is mostly read together, and then only some keys are sought, the first
    and the last among them: `read_rows` compares all of them with those of the part.

    Args:
        directory: The cache's.
        fingerprint: Of the cache.
        indices: Of its parts, by name.
        keys: Keys of the rows.
        rows: The rows themselves, or empty: see `Wanted`.

    Raises:
        FileUnreadableError: The system does not let a part be read.
        FileNotFoundError: A part is gone: compaction replaced it.
    """
    if not keys:
        return None
    tried = np.linspace(0, len(keys) - 1, _KEYS_TRIED).astype(np.int64)
    halves = key_halves([keys[n] for n in tried.tolist()])
    for name, index in indices.items():
        found = search(index, halves)
        if found[0] >= 0 and np.array_equal(found - found[0], tried):
            wanted = Wanted(keys, found[0] + np.arange(len(keys)), rows)
            with suppress(ArtifactError):  # others lie between them, or the part is damaged
                return read_rows(directory, name, fingerprint, wanted)
    return None


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

    has_failed = Event()

    def read(share: npt.NDArray[np.int64]) -> None:
        with open_part(path, fingerprint) as file:
            _check_positions(path, positions, file.metadata)
            for start in range(0, share.size, GROUPS_AT_ONCE):
                if has_failed.is_set():  # what this reader finds is of no use any more
                    return
                portion = share[start : start + GROUPS_AT_ONCE]
                sought = slice(*np.searchsorted(groups, [portion[0], portion[-1] + 1]))
                in_portion = np.searchsorted(portion, groups[sought]) * ROWS_PER_GROUP
                local = in_portion + positions[sought] % ROWS_PER_GROUP
                writer = _only_writer(file.metadata, portion.tolist())
                columns = _READ if writer is None else _READ[:2]
                taken = _take(file.read_row_groups(portion.tolist(), columns), local)
                slots = order[sought]
                _check_rows(path, taken, keys.take(pa.array(slots)), wanted.rows, slots)
                _fill(rows, slots, taken, writer)

    def share_of(share: npt.NDArray[np.int64]) -> None:
        try:
            read(share)
        except BaseException:
            has_failed.set()
            raise

    present = np.unique(groups)
    most = min(READERS_PER_CORE * pa.cpu_count(), MOST_READERS)
    readers = max(min(most, -(-present.size // GROUPS_AT_ONCE)), 1)
    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(share_of, np.array_split(present, readers)))  # each fills slots of its own
    return rows


def _check_positions(
    path: Path, positions: npt.NDArray[np.int64], metadata: pq.FileMetaData
) -> None:
    if positions.size and positions[-1] >= metadata.num_rows:
        raise ForeignIndexError(
            f"{path}: the index names row {positions[-1]} of {metadata.num_rows}"
        )


def _only_writer(metadata: pq.FileMetaData, groups: Sequence[int]) -> str | None:
    """Who scored all rows of these row groups, if the footer says that it was one."""
    names: set[str | None] = set()
    for group in groups:
        found = metadata.row_group(group).column(_SCORED_BY).statistics
        is_one = found is not None and found.has_min_max and found.min == found.max
        names.add(found.min if is_one else None)
    return names.pop() if len(names) == 1 else None


def _take(table: pa.Table, local: npt.NDArray[np.int64]) -> pa.Table:
    """The local rows of a decoded portion, in one chunk."""
    is_whole = local.size == table.num_rows and bool((np.diff(local) == 1).all())
    return (table if is_whole else table.take(local)).combine_chunks()


def _check_rows(
    path: Path,
    taken: pa.Table,
    keys: pa.StringArray,
    rows: Sequence[RefRow],
    slots: npt.NDArray[np.int64],
) -> None:
    """Refuse rows that are not those that were sought."""
    if not taken.column("row_key").chunk(0).equals(keys):
        raise ForeignIndexError(f"{path}: the index does not belong to this part")
    if not rows:
        return
    found = np.diff(taken.column("logprobs").chunk(0).offsets.to_numpy())
    sought = map(rows.__getitem__, slots.tolist())
    expected = np.fromiter(map(len, map(_COMPLETION, sought)), np.int64, slots.size)
    wrong = np.flatnonzero(found != expected)
    if wrong.size:
        n = int(wrong[0])
        raise ArtifactError(f"{path}: row {keys[n]} has {found[n]} log-probs, not {expected[n]}")


def _fill(
    rows: PartRows, slots: npt.NDArray[np.int64], taken: pa.Table, writer: str | None
) -> None:
    """Put what was taken into its slots."""
    column = taken.column("logprobs").chunk(0)
    borders, flat = column.offsets.to_numpy().tolist(), column.values.to_numpy()
    lines = [flat[start:end] for start, end in pairwise(borders)]
    one = [writer] * len(lines) if writer is not None else None
    writers = one or taken.column("scored_by").to_pylist()
    if (np.diff(slots) == 1).all():  # asked for in order of writing
        there = slice(int(slots[0]), int(slots[-1]) + 1)
        rows.logprobs[there], rows.scored_by[there] = lines, writers
        return
    for slot, line, name in zip(slots.tolist(), lines, writers, strict=True):
        rows.logprobs[slot] = line
        rows.scored_by[slot] = name
