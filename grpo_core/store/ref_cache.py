"""Reference log-probs in fp32, computed once for exact token ids and temperature.

```
ref_logprobs/<fingerprint>/fingerprint.json    what the log-probs were computed with
ref_logprobs/<fingerprint>/part-….parquet      rows; immutable, see `ref_parts`
ref_logprobs/<fingerprint>/part-….index.npy    key index of the part
ref_logprobs/<fingerprint>/merging.json        parts that a merge is replacing, while it does
ref_logprobs/<fingerprint>/replaced.json       parts that were replaced: unread, removed later
```

Appending takes the cache's lock, drops rows that appeared meanwhile and renames a part into place.
Eight parts of one size become one, so that files stay large; readers need no lock, because parts
that were replaced stay for ten minutes, and a reader that finds one gone looks again. A damaged
part is passed over by readers and set aside by the next writer.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from grpo_core.errors import ArtifactError
from grpo_core.store.locks import hold
from grpo_core.store.ref_claims import claim
from grpo_core.store.ref_index import (
    Index,
    has_index,
    key_halves,
    orphaned_indices,
    search,
    write_index,
)
from grpo_core.store.ref_lookup import (
    ForeignIndexError,
    PartRows,
    Wanted,
    read_rows,
    read_together,
)
from grpo_core.store.ref_merges import (
    batches_to_merge,
    finish_merge,
    list_parts,
    merge,
    names_to_merge,
    say_passed_over,
    sequence_of,
    set_aside,
)
from grpo_core.store.ref_parts import (
    check_part,
    forget_index,
    make_tables,
    read_index,
    read_keys,
    read_whole,
    write_part,
)
from grpo_core.store.ref_rows import Fingerprint, Found, Logprobs, RefRow, check_values

_TRIES = 5
"""How often a reader looks again when a merge removes the parts that it is reading."""
Answer = TypeVar("Answer")


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
        self._indices: dict[str, Index] = {}
        self._unusable: set[str] = set()
        self._outdated: set[str] = set()
        self._doubted: set[str] = set()
        claim(self.directory, fingerprint)

    def get(
        self,
        prompt_token_ids: Sequence[int],
        completion_token_ids: Sequence[int],
        temperature: float,
    ) -> Logprobs | None:
        """Log-probs [T] of one completion, or None."""
        return self.get_many([RefRow(prompt_token_ids, completion_token_ids, temperature)])[0]

    def put(
        self,
        prompt_token_ids: Sequence[int],
        completion_token_ids: Sequence[int],
        temperature: float,
        logprobs: Logprobs,
    ) -> None:
        """Append log-probs [T] of one completion, unless they are there."""
        self.put_many([RefRow(prompt_token_ids, completion_token_ids, temperature)], [logprobs])

    def get_many(self, rows: Sequence[RefRow]) -> list[Logprobs | None]:
        """Log-probs of each row in order, None where the cache has none."""
        return self.read(rows).logprobs

    def read(self, rows: Sequence[RefRow]) -> Found:
        """Log-probs of each row and who scored them; a damaged part counts as not there."""
        keys = [row.key for row in rows]
        return self._retried(lambda: self._read(keys, rows))

    def put_many(
        self, rows: Sequence[RefRow], logprobs: Sequence[Logprobs], *, scored_by: str = ""
    ) -> int:
        """Append what is not there yet, as one part; returns the rows written.

        Args:
            rows: Rows, in an order in which they will be asked for together.
            logprobs: fp32 [T] of each row.
            scored_by: Who scored them; comes back with each row.

        Raises:
            DataContractError: A value is not what `check_values` expects; nothing is written.
        """
        return self.absorb([row.key for row in rows], logprobs, [scored_by] * len(rows), rows=rows)

    def take(self, keys: Sequence[str], rows: Sequence[RefRow] = ()) -> tuple[list[str], Found]:
        """The rows that are there, with their keys; for `absorb` on another machine."""
        found = self._retried(lambda: self._read(keys, rows)) if keys else Found([], [])
        there = [n for n, values in enumerate(found.logprobs) if values is not None]
        return [keys[n] for n in there], Found(
            [found.logprobs[n] for n in there], [found.scored_by[n] for n in there]
        )

    def missing(self, keys: Sequence[str]) -> list[str]:
        """Keys of rows that are not there, by the indices of the parts that can be opened."""
        return self._retried(lambda: self._missing(keys)) if keys else []

    def absorb(
        self,
        keys: Sequence[str],
        logprobs: Sequence[Logprobs],
        scored_by: Sequence[str],
        *,
        rows: Sequence[RefRow] = (),
    ) -> int:
        """Append rows unless they are there, checked if `rows` are given; returns those written."""
        at = {key: n for n, key in enumerate(keys)}
        with self._locked("append of reference log-probs"):
            sought = [rows[n] for n in at.values()] if rows else ()
            known = set(self.take(list(at), sought)[0]) if self._load_indices() else set()
            fresh = [n for key, n in at.items() if key not in known]
            others = set(range(len(rows))).difference(fresh) if len(fresh) < len(rows) else ()
            check_values([rows[n] for n in others], [logprobs[n] for n in others])
            if fresh:
                if len(fresh) < len(keys):
                    keys = [keys[n] for n in fresh]
                    logprobs = [logprobs[n] for n in fresh]
                    scored_by = [scored_by[n] for n in fresh]
                    rows = [rows[n] for n in fresh] if rows else ()
                self._append(make_tables(keys, logprobs, scored_by, rows=rows))
                self._merge_sizes()
        return len(fresh)

    def compact(self) -> tuple[int, int]:
        """Merge all parts into as few as possible; returns the numbers before and after."""
        with self._locked("compaction of reference log-probs"):
            before = self._sizes()
            for batch in batches_to_merge(before):
                self._merge(batch)
            return len(before), len(self._load_indices())

    def set_aside_damaged(self) -> int:
        """Decode every part and set aside those that are damaged; returns how many were.

        Their rows are missing from then on, and whoever needs one computes it again.

        Raises:
            FileUnreadableError: The system does not let a part be read.
        """
        with self._locked("check of reference log-probs"):
            for name in list(self._load_indices()):
                try:
                    check_part(self.directory, name, self.fingerprint.digest)
                except ArtifactError as error:
                    self._pass_over(name, error)
            return len(self._unusable)

    def keys(self) -> list[str]:
        """Keys of all rows, in order of writing."""
        return [
            key
            for name in self._retried(self._load_indices)
            for key in read_keys(self.directory, name, self.fingerprint.digest)
        ]

    @property
    def num_rows(self) -> int:
        """Rows in all parts."""
        return sum(index.shape[1] for index in self._retried(self._load_indices).values())

    def _missing(self, keys: Sequence[str]) -> list[str]:
        left = list(keys)
        for index in self._load_indices().values():
            if left:
                left = [left[n] for n in np.flatnonzero(search(index, key_halves(left)) < 0)]
        return left

    def _read(self, keys: Sequence[str], rows: Sequence[RefRow] = ()) -> Found:
        indices = dict(self._load_indices())
        together = read_together(self.directory, self.fingerprint.digest, indices, keys, rows)
        if together is not None:
            return Found(list(together.logprobs), together.scored_by)
        found = Found([None] * len(keys), [""] * len(keys))
        missing = np.arange(len(keys))
        halves = key_halves(keys)
        for name, index in indices.items():
            if not missing.size:
                break
            positions = search(index, halves[:, missing])
            slots = missing[positions >= 0]
            is_all = slots.size == len(keys)  # then the rows need not be gone through
            wanted = Wanted(
                keys=keys if is_all else [keys[n] for n in slots.tolist()],
                positions=positions[positions >= 0],
                rows=rows if is_all or not rows else [rows[n] for n in slots.tolist()],
            )
            part = self._read_part(name, wanted) if slots.size else None
            if part is None:
                continue
            if is_all:
                return Found(list(part.logprobs), part.scored_by)
            filled = zip(slots.tolist(), part.logprobs, part.scored_by, strict=True)
            for slot, values, writer in filled:
                found.logprobs[slot], found.scored_by[slot] = values, writer
            missing = missing[positions < 0]
        return found

    def _read_part(self, name: str, wanted: Wanted) -> PartRows | None:
        """Rows of a part; None when it is damaged, and then it is not asked again."""
        try:
            return read_rows(self.directory, name, self.fingerprint.digest, wanted)
        except ForeignIndexError as error:
            if name not in self._doubted:  # it was changed since it was proved: look again
                self._doubted.add(name)
                forget_index(self.directory, name)
                self._indices.pop(name)
                raise
            self._pass_over(name, error)
            return None
        except ArtifactError as error:
            self._pass_over(name, error)
            return None

    def _load_indices(self) -> dict[str, Index]:
        """Part name → its index, in order of writing; reads only parts that are new."""
        names = list_parts(self.directory)
        known = {name: self._indices[name] for name in names if name in self._indices}
        for name in names:
            if name not in known and name not in self._unusable:
                index = self._index_of(name)
                if index is not None:
                    known[name] = index
        self._indices = dict(sorted(known.items()))
        return self._indices

    def _index_of(self, name: str) -> Index | None:
        """Index of a part; None when the part is damaged."""
        try:
            index, is_outdated = read_index(self.directory, name, self.fingerprint.digest)
        except ArtifactError as error:
            self._pass_over(name, error)
            return None
        if is_outdated:
            self._outdated.add(name)
        return index

    def _append(self, tables: Iterable[pa.Table], *, sequence: int | None = None) -> str:
        numbers = [sequence_of(name) for name in self._indices] or [-1]
        number = max(numbers) + 1 if sequence is None else sequence
        name = f"part-{number:08d}-{uuid.uuid4().hex[:12]}"
        self._indices[name] = write_part(self.directory, name, tables, self.fingerprint.digest)
        return name

    def _merge_sizes(self) -> None:
        """Merge while some size has eight parts."""
        while True:
            names = names_to_merge(self._sizes())
            if not names:
                return
            self._merge(names)

    def _merge(self, names: Sequence[str]) -> None:
        """Replace parts by one with their rows, in their order, each once."""
        if len(names) < 2:
            return
        tables = []
        for name in names:
            try:
                tables.append(read_whole(self.directory, name, self.fingerprint.digest))
            except ArtifactError as error:
                self._pass_over(name, error)
                return
        table = pa.concat_tables(tables)
        keys = table.column("row_key").to_pylist()
        first = {key: n for n, key in reversed(list(enumerate(keys)))}
        if len(first) < len(keys):
            table = table.take(sorted(first.values()))
        with merge(self.directory, names):
            self._append([table], sequence=sequence_of(names[0]))

    def _pass_over(self, name: str, error: ArtifactError) -> None:
        """Never use a damaged part again; its rows count as missing."""
        say_passed_over(error.message)
        self._indices.pop(name, None)
        self._unusable.add(name)

    @contextmanager
    def _locked(self, purpose: str) -> Iterator[None]:
        """Hold the cache for writing, after tidying up behind a writer that died."""
        with hold(self.directory / ".lock", purpose):
            for leftover in self.directory.glob(".part-*"):
                leftover.unlink(missing_ok=True)
            finish_merge(self.directory)
            for leftover in orphaned_indices(self.directory):
                leftover.unlink(missing_ok=True)
            for name, index in self._load_indices().items():
                if name in self._outdated or not has_index(self.directory, name):
                    write_index(self.directory, name, index)
            self._outdated.clear()
            yield
            set_aside(self.directory, self._unusable)
            self._unusable.clear()

    def _retried(self, read: Callable[[], Answer]) -> Answer:
        """Look again when a part is gone, since a merge replaced it, or its index changed."""
        for _ in range(_TRIES - 1):
            with suppress(FileNotFoundError, ForeignIndexError):
                return read()
        return read()

    def _sizes(self) -> dict[str, int]:
        """Part name → its bytes, in order of writing."""
        return {n: (self.directory / f"{n}.parquet").stat().st_size for n in self._load_indices()}
