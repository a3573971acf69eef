"""Reference log-probs in fp32, computed once for exact token ids and temperature.

```
ref_logprobs/<fingerprint>/fingerprint.json      what the log-probs were computed with
ref_logprobs/<fingerprint>/part-<id>.parquet     row_key, logprobs list<float32>; immutable
ref_logprobs/<fingerprint>/part-<id>.index.npy   sorted key halves and row numbers of the part
```

Appending takes the cache's lock, drops rows that appeared meanwhile and renames a part into
place; its index is renamed before it, so a part without an index never exists. Log-probs lie in
byte-stream-split columns because their mantissas are noise to any other encoding.
"""

import hashlib
import logging
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from grpo_core.errors import ArtifactError, CacheStaleError, DataContractError
from grpo_core.store.canonical import canonical_json, sha256_json
from grpo_core.store.files import read_json, write_atomically, write_json
from grpo_core.store.locks import hold

logger = logging.getLogger(__name__)

CACHE_VERSION = 1
ROWS_PER_GROUP = 256
_MAX_LOGPROB = 1e-4
"""Rounding may lift a log-prob of a certain token a little above 0."""

Logprobs = npt.NDArray[np.float32]
_INDEX = np.dtype([("high", np.uint64), ("low", np.uint64), ("row", np.int64)])


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What reference log-probs depend on besides the row itself.

    Args:
        weights: Digest of the reference's weights and config.
        tokenizer: Digest of tokenizer and template.
        dtype: Of weights and activations.
        attention: Attention implementation.
        version: Version of the scoring code.
    """

    weights: str
    tokenizer: str
    dtype: str
    attention: str
    version: int = CACHE_VERSION

    @property
    def digest(self) -> str:
        """Name of the cache's directory, 32 hex digits."""
        return sha256_json(asdict(self))[:32]


@dataclass(frozen=True, slots=True)
class RefRow:
    """A completion whose reference log-probs are wanted.

    Args:
        prompt_token_ids: [P].
        completion_token_ids: [T].
        temperature: Divides the logits; log-probs at another temperature are other numbers.
    """

    prompt_token_ids: tuple[int, ...]
    completion_token_ids: tuple[int, ...]
    temperature: float

    @property
    def key(self) -> str:
        """Key of the row, 32 hex digits."""
        hasher = hashlib.sha256(canonical_json(round(self.temperature, 6)).encode())
        for ids in (self.prompt_token_ids, self.completion_token_ids):
            hasher.update(len(ids).to_bytes(8, "little"))
            hasher.update(np.asarray(ids, dtype="<i4").tobytes())
        return hasher.hexdigest()[:32]


class RefLogprobCache:
    """Reads and appends the cache of one fingerprint.

    Args:
        root: `lake/ref_logprobs`.
        fingerprint: Of the reference that asks.

    Raises:
        CacheStaleError: The directory was made with another fingerprint.
    """

    def __init__(self, root: Path, fingerprint: Fingerprint) -> None:
        self.fingerprint = fingerprint
        self.directory = root / fingerprint.digest
        self._indices: dict[str, npt.NDArray[np.void]] = {}
        self._claim()

    def get(
        self,
        prompt_token_ids: Sequence[int],
        completion_token_ids: Sequence[int],
        temperature: float,
    ) -> Logprobs | None:
        """Log-probs [T] of one completion, or None."""
        row = RefRow(tuple(prompt_token_ids), tuple(completion_token_ids), temperature)
        return self.get_many([row])[0]

    def put(
        self,
        prompt_token_ids: Sequence[int],
        completion_token_ids: Sequence[int],
        temperature: float,
        logprobs: Logprobs,
    ) -> None:
        """Append log-probs [T] of one completion, unless they are there."""
        row = RefRow(tuple(prompt_token_ids), tuple(completion_token_ids), temperature)
        self.put_many([row], [logprobs])

    def get_many(self, rows: Sequence[RefRow]) -> list[Logprobs | None]:
        """Log-probs of each row in order, None where the cache has none.

        Raises:
            ArtifactError: A part cannot be read, or holds another length than its key says.
        """
        keys = [row.key for row in rows]
        found: dict[str, Logprobs] = {}
        for part, index in list(self._load_indices().items()):
            wanted = sorted(set(keys) - found.keys())
            if not wanted:
                break
            positions = _search(index, wanted)
            if positions:
                found |= self._read_or_set_aside(part, positions)
        results = [found.get(key) for key in keys]
        for row, logprobs in zip(rows, results, strict=True):
            if logprobs is not None and logprobs.size != len(row.completion_token_ids):
                raise ArtifactError(
                    f"{self.directory}: row {row.key} has {logprobs.size} log-probs, expected "
                    f"{len(row.completion_token_ids)}",
                    hint="remove the cache directory; it is computed again",
                )
        return results

    def put_many(self, rows: Sequence[RefRow], logprobs: Sequence[Logprobs]) -> int:
        """Append what is not there yet, as one part; returns the rows written.

        Raises:
            DataContractError: Wrong dtype or length, not finite, or above 0.
        """
        for row, values in zip(rows, logprobs, strict=True):
            _check_values(row, values)
        fresh = {row.key: values for row, values in zip(rows, logprobs, strict=True)}
        with hold(self.directory / ".lock", "append of reference log-probs"):
            known = self._load_indices()
            for index in known.values():
                for key in _search(index, sorted(fresh)):
                    del fresh[key]
            if fresh:
                self._write_part(fresh)
        return len(fresh)

    def _claim(self) -> None:
        path = self.directory / "fingerprint.json"
        expected = asdict(self.fingerprint)
        if not path.is_file():
            self.directory.mkdir(parents=True, exist_ok=True)
            write_json(path, expected)
        got = read_json(path)
        if got != expected:
            changed = sorted(name for name in expected if got.get(name) != expected[name])
            raise CacheStaleError(
                f"{self.directory} was made by another reference: {', '.join(changed)} differ",
                hint="the cache belongs to another model, tokenizer or dtype; remove the directory",
            )

    def _load_indices(self) -> dict[str, npt.NDArray[np.void]]:
        """Part name → its index; reads only the parts that appeared since the last call."""
        for path in sorted(self.directory.glob("part-*.parquet")):
            if path.stem not in self._indices:
                self._load_index(path.stem)
        return self._indices

    def _load_index(self, part: str) -> None:
        path = self.directory / f"{part}.index.npy"
        try:
            self._indices[part] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            logger.warning("reference log-probs are computed again: %s: %s", path, error)
            self._set_aside(part)

    def _write_part(self, fresh: dict[str, Logprobs]) -> None:
        keys = list(fresh)
        name = f"part-{uuid.uuid4().hex[:16]}"
        index = np.zeros(len(keys), dtype=_INDEX)
        index["high"] = [int(key[:16], 16) for key in keys]
        index["low"] = [int(key[16:], 16) for key in keys]
        index["row"] = np.arange(len(keys))
        index.sort(order=["high", "low"])
        table = pa.table(
            {
                "row_key": pa.array(keys, pa.string()),
                "logprobs": pa.array(list(fresh.values()), pa.list_(pa.float32())),
            }
        )

        def write_index(path: Path) -> None:
            with path.open("wb") as stream:
                np.save(stream, index, allow_pickle=False)

        def write_rows(path: Path) -> None:
            pq.write_table(
                table,
                path,
                compression="zstd",
                compression_level=1,
                use_dictionary=False,
                column_encoding={"logprobs.list.element": "BYTE_STREAM_SPLIT"},
                row_group_size=ROWS_PER_GROUP,
                write_page_checksum=True,
            )

        write_atomically(self.directory / f"{name}.index.npy", write_index)
        write_atomically(self.directory / f"{name}.parquet", write_rows)

    def _read_or_set_aside(self, part: str, positions: dict[str, int]) -> dict[str, Logprobs]:
        """Rows of a part; a damaged part is set aside, so that its rows are computed again."""
        try:
            return self._read_rows(part, positions)
        except ArtifactError as error:
            logger.warning("reference log-probs are computed again: %s", error.message)
            self._set_aside(part)
            return {}

    def _set_aside(self, part: str) -> None:
        self._indices.pop(part, None)
        for path in self.directory.glob(f"{part}.*"):
            path.rename(path.with_name(f"damaged-{path.name}"))

    def _read_rows(self, part: str, positions: dict[str, int]) -> dict[str, Logprobs]:
        path = self.directory / f"{part}.parquet"
        groups = sorted({position // ROWS_PER_GROUP for position in positions.values()})
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read_row_groups(groups)
        except (pa.ArrowException, OSError) as error:
            raise ArtifactError(
                f"{path} cannot be read: {error}",
                hint="remove the part and its index; its rows are computed again",
            ) from error
        first_row = {group: n * ROWS_PER_GROUP for n, group in enumerate(groups)}
        keys, column = table.column("row_key"), table.column("logprobs").combine_chunks()
        found = {}
        for key, position in positions.items():
            local = first_row[position // ROWS_PER_GROUP] + position % ROWS_PER_GROUP
            if keys[local].as_py() != key:
                raise ArtifactError(f"{path}: the index does not belong to this part")
            found[key] = column[local].values.to_numpy(zero_copy_only=False)
        return found


def _search(index: npt.NDArray[np.void], keys: Sequence[str]) -> dict[str, int]:
    """Key → row number, for the keys that the index holds."""
    high = np.array([int(key[:16], 16) for key in keys], dtype=np.uint64)
    first = np.searchsorted(index["high"], high)
    found = {}
    for key, start in zip(keys, first.tolist(), strict=True):
        low, top, position = int(key[16:], 16), int(key[:16], 16), start
        while position < len(index) and int(index["high"][position]) == top:
            if int(index["low"][position]) == low:
                found[key] = int(index["row"][position])
            position += 1
    return found


def _check_values(row: RefRow, values: Logprobs) -> None:
    problem = ""
    if values.dtype != np.float32:
        problem = f"dtype {values.dtype}, expected float32"
    elif values.shape != (len(row.completion_token_ids),):
        problem = f"shape {values.shape}, expected ({len(row.completion_token_ids)},)"
    elif not np.isfinite(values).all():
        problem = "NaN or infinity"
    elif values.size and values.max() > _MAX_LOGPROB:
        problem = f"a log-prob of {values.max():.3g}, above 0"
    if problem:
        raise DataContractError(f"reference log-probs of row {row.key}: {problem}")
