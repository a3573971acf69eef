"""Parts of the reference cache: an immutable Parquet file and an index of its row keys.

```
part-00000012-3f9c….parquet      one row a completion; scalars beside the list as everywhere
part-00000012-3f9c….index.npy    see `ref_index`
```

Log-probs lie in byte-stream-split columns,
because their mantissas are noise to any other encoding.
"""

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from grpo_core.errors import ArtifactError, DataContractError
from grpo_core.store.files import write_atomically
from grpo_core.store.reading import reading, size_of
from grpo_core.store.ref_index import (
    Index,
    build_index,
    identity,
    index_digest,
    load_index,
    write_index,
)
from grpo_core.store.ref_rows import Logprobs, RefRow, check_stored_values, check_values, flatten

ROWS_PER_GROUP = 256
GROUPS_AT_ONCE = 16
"""Row groups decoded or made together: bounds the memory of a look-up and of an append."""
PORTIONS_AHEAD = 4
"""Portions that wait for their encoding: bounds the memory of an append."""

SCHEMA = pa.schema(
    [
        ("row_key", pa.string()),
        ("num_completion_tokens", pa.int32()),
        ("logprobs", pa.list_(pa.float32())),
        ("logprob_sum", pa.float64()),
        ("logprob_min", pa.float32()),
        ("logprob_max", pa.float32()),
        ("logprob_nonfinite", pa.int32()),
        ("scored_by", pa.string()),
    ]
)
_FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["scored_by"],
    "column_encoding": {"logprobs.list.element": "BYTE_STREAM_SPLIT"},
    "write_statistics": ["scored_by"],  # where it is one, it need not be read
    "write_page_checksum": True,
}

_MAGIC = b"PAR1"
_INDEX_DIGEST = "grpo.index"
_proven: dict[Path, tuple[tuple[int, ...], ...]] = {}
"""Index → what it and its part were when this process proved that it is that of the part."""


def make_tables(
    keys: Sequence[str],
    logprobs: Sequence[Logprobs],
    scored_by: Sequence[str],
    *,
    rows: Sequence[RefRow] = (),
) -> Iterator[pa.Table]:
    """Rows of a part, scalars beside each list, in portions of whole row groups.

    Raises:
        DataContractError: `rows` are given, and the values are not theirs: see `check_values`.
    """
    size = GROUPS_AT_ONCE // 4 * ROWS_PER_GROUP
    for start in range(0, len(keys), size):
        part = slice(start, start + size)
        values = logprobs[part]
        flat = check_values(rows[part], values) if rows else flatten(values)
        lengths = np.fromiter(map(len, values), np.int32, len(values))
        yield _make_table(keys[part], flat, lengths, scored_by[part])


def _make_table(
    keys: Sequence[str], flat: Logprobs, lengths: npt.NDArray[np.int32], scored_by: Sequence[str]
) -> pa.Table:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    starts = offsets[:-1][lengths > 0]

    def each(reduce: np.ufunc, dtype: type, values: npt.NDArray[Any] = flat) -> npt.NDArray[Any]:
        result: npt.NDArray[Any] = np.zeros(len(keys), dtype=dtype)
        if starts.size:
            result[lengths > 0] = reduce.reduceat(values, starts, dtype=dtype)
        return result

    return pa.table(
        {
            "row_key": pa.array(keys, pa.string()),
            "num_completion_tokens": lengths,
            "logprobs": pa.ListArray.from_arrays(offsets, flat),
            "logprob_sum": each(np.add, np.float64),
            "logprob_min": each(np.minimum, np.float32),
            "logprob_max": each(np.maximum, np.float32),
            "logprob_nonfinite": each(np.add, np.int32, ~np.isfinite(flat)),
            "scored_by": pa.array(scored_by, pa.string()),
        },
        schema=SCHEMA,
    )


def write_part(directory: Path, name: str, tables: Iterable[pa.Table], fingerprint: str) -> Index:
    """Write a part, then its index, each complete or absent; returns the index.

    Args:
        directory: The cache's.
        name: Of the part.
        tables: Its rows in portions of whole row groups, from `make_table` or other parts.
        fingerprint: Of the cache.
    """
    keys: list[str] = []
    index = build_index(keys)
    schema = SCHEMA.with_metadata({"grpo.table": "ref_logprobs", "grpo.fingerprint": fingerprint})

    def write(path: Path) -> None:
        nonlocal index
        with pq.ParquetWriter(path, schema, **_FORMAT) as writer, ThreadPoolExecutor(1) as encoder:
            queue: deque[Future[None]] = deque()
            for table in tables:  # the next portions are made while one is encoded
                if len(queue) == PORTIONS_AHEAD:
                    queue.popleft().result()
                queue.append(encoder.submit(writer.write_table, table.cast(schema), ROWS_PER_GROUP))
                keys.extend(table.column("row_key").to_pylist())
            for portion in queue:
                portion.result()
            index = build_index(keys)
            writer.add_key_value_metadata({_INDEX_DIGEST: index_digest(index)})

    write_atomically(directory / f"{name}.parquet", write)
    write_index(directory, name, index)
    return index


def read_index(directory: Path, name: str, fingerprint: str) -> tuple[Index, bool]:
    """The index of a part that can be opened, and whether its file has to be written anew.

    An index that is not that of its part, by the digest in the part's footer, would hide rows: it
    is made again from the part. A part of an earlier release states no digest; its keys are
    compared. Either is done once in a process while neither file changes.

    Raises:
        ArtifactError: The part is damaged or belongs to another cache.
        FileUnreadableError: The system does not let it be read.
        FileNotFoundError: It is gone: compaction replaced it.
    """
    path = directory / f"{name}.parquet"
    present = identity(directory, name)
    index = load_index(directory, name)
    if index is not None and present is not None and _proven.get(path) == present:
        return index, False
    with open_part(path, fingerprint) as file:
        stated = (file.metadata.metadata or {}).get(_INDEX_DIGEST.encode(), b"").decode()
        is_long = index is not None and index.shape[1] == file.metadata.num_rows
    if not (is_long and index is not None and stated == index_digest(index)):
        again = build_index(read_keys(directory, name, fingerprint))
        if stated or index is None or not np.array_equal(index, again):
            return again, True
    if present is not None:
        _proven[path] = present
    return index, False


def forget_index(directory: Path, name: str) -> None:
    """Prove the index of a part again when it is read next."""
    _proven.pop(directory / f"{name}.parquet", None)


def read_keys(directory: Path, name: str, fingerprint: str) -> list[str]:
    """Keys of a part's rows, in order.

    Raises:
        ArtifactError: The part is damaged or belongs to another cache.
        FileUnreadableError: The system does not let it be read.
        FileNotFoundError: It is gone: compaction replaced it.
    """
    with open_part(directory / f"{name}.parquet", fingerprint) as file:
        keys: list[str] = file.read(columns=["row_key"]).column("row_key").to_pylist()
    return keys


def read_whole(directory: Path, name: str, fingerprint: str) -> pa.Table:
    """All rows of a part; raises as `read_keys` does."""
    with open_part(directory / f"{name}.parquet", fingerprint) as file:
        return file.read().cast(SCHEMA)


def check_part(directory: Path, name: str, fingerprint: str) -> None:
    """Decode a part with its page checksums and compare scalars and index with its rows.

    Raises:
        ArtifactError: It is damaged; says how.
        FileUnreadableError: The system does not let it be read.
        FileNotFoundError: It is missing.
    """
    path = directory / f"{name}.parquet"
    table = read_whole(directory, name, fingerprint)
    keys = table.column("row_key").to_pylist()
    column = table.column("logprobs").combine_chunks()
    borders = column.offsets.to_numpy()
    values = [column.values.to_numpy()[start:end] for start, end in pairwise(borders.tolist())]
    again = pa.concat_tables(
        [SCHEMA.empty_table(), *make_tables(keys, values, table.column("scored_by").to_pylist())]
    )
    try:
        check_stored_values(keys, values)
    except DataContractError as error:
        raise ArtifactError(f"{path}: {error.message}", hint=error.hint) from error
    if again != table:
        raise ArtifactError(f"{path}: length, sum or extremes of a row are not those of its list")
    index = load_index(directory, name)
    if index is not None and not np.array_equal(index, build_index(keys)):
        raise ArtifactError(f"{path}: its index is that of other rows")


def ends_as_parquet(path: Path) -> bool:
    """Whether a regular file ends with Parquet's magic number, which a torn one does not.

    Raises:
        FileUnreadableError: The system does not let it be read.
    """
    try:
        with reading(path):
            if size_of(path) < len(_MAGIC):
                return False
            with path.open("rb") as stream:
                stream.seek(-len(_MAGIC), os.SEEK_END)
                return stream.read() == _MAGIC
    except (ArtifactError, FileNotFoundError):
        return False


@contextmanager
def open_part(path: Path, fingerprint: str) -> Iterator[pq.ParquetFile]:
    """A part that is open, its footer checked; proof of damage becomes an ArtifactError."""
    with reading(path, hint="its rows are computed again"):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise ArtifactError(f"{path} is not a regular file")
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            footer = file.metadata.metadata or {}
            if footer.get(b"grpo.fingerprint", b"").decode() != fingerprint:
                raise ArtifactError(f"{path} belongs to another cache: it was copied or swapped")
            yield file
