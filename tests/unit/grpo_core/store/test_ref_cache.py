"""The reference cache: exact keys, no duplicates, no foreign fingerprint, no damaged row."""

import dataclasses
import errno
import multiprocessing
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fault_walk import no_descriptor_left

from grpo_core.errors import CacheStaleError, DataContractError, FileUnreadableError
from grpo_core.store import Fingerprint, RefLogprobCache, RefRow
from grpo_core.store.files import read_json, write_json
from grpo_core.store.ref_merges import list_parts
from grpo_core.store.ref_parts import build_index, read_keys

FINGERPRINT = Fingerprint("w" * 64, "t" * 64, "float32", "sdpa")


def rows(count: int, *, start: int = 0) -> list[RefRow]:
    return [RefRow((1, 2, n), tuple(range(n % 7 + 1)), 1.0) for n in range(start, start + count)]


def values(items: list[RefRow]) -> list[np.ndarray]:
    return [-np.arange(len(r.completion_token_ids), dtype=np.float32) / 7 for r in items]


@pytest.fixture
def cache(tmp_path: Path) -> RefLogprobCache:
    return RefLogprobCache(tmp_path, FINGERPRINT)


def test_what_was_put_comes_back_bit_for_bit(cache: RefLogprobCache) -> None:
    items = rows(700)
    assert cache.put_many(items, values(items)) == 700
    shuffled = [items[n] for n in np.random.default_rng(0).permutation(700)]
    for row, found in zip(shuffled, cache.get_many(shuffled), strict=True):
        assert found is not None
        np.testing.assert_array_equal(found, values([row])[0])


def test_missing_rows_are_none(cache: RefLogprobCache) -> None:
    cache.put_many(rows(3), values(rows(3)))
    found = cache.get_many(rows(5))
    assert [value is None for value in found] == [False] * 3 + [True] * 2


def test_rows_are_stored_once(cache: RefLogprobCache, tmp_path: Path) -> None:
    cache.put_many(rows(3), values(rows(3)))
    other = RefLogprobCache(tmp_path, FINGERPRINT)
    assert other.put_many(rows(5), values(rows(5))) == 2
    assert cache.put_many(rows(5), values(rows(5))) == 0


@pytest.mark.parametrize(
    "other",
    [
        RefRow((1, 2), (3, 4), 0.9),
        RefRow((1,), (2, 3, 4), 1.0),
        RefRow((1, 2, 3), (4,), 1.0),
        RefRow((1, 2), (4, 3), 1.0),
    ],
)
def test_temperature_and_the_border_of_the_prompt_are_part_of_the_key(other: RefRow) -> None:
    assert RefRow((1, 2), (3, 4), 1.0).key != other.key


def test_a_foreign_fingerprint_is_refused(cache: RefLogprobCache, tmp_path: Path) -> None:
    path = cache.directory / "fingerprint.json"
    write_json(path, read_json(path) | {"weights": "x" * 64})
    with pytest.raises(CacheStaleError, match="weights differ"):
        RefLogprobCache(tmp_path, FINGERPRINT)


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Fingerprint)])
def test_every_field_of_the_fingerprint_names_another_cache(tmp_path: Path, field: str) -> None:
    RefLogprobCache(tmp_path, FINGERPRINT).put_many(rows(3), values(rows(3)))
    changed = 99 if field == "version" else "changed"
    other = RefLogprobCache(tmp_path, dataclasses.replace(FINGERPRINT, **{field: changed}))
    assert other.get_many(rows(3)) == [None] * 3


def test_an_append_changes_no_part_that_is_there(cache: RefLogprobCache) -> None:
    cache.put_many(rows(3), values(rows(3)))
    files = list(cache.directory.glob("part-*"))
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in files}
    cache.put_many(rows(9), values(rows(9)))
    assert {path: (path.read_bytes(), path.stat().st_ino) for path in files} == before
    assert len(list(cache.directory.glob("part-*"))) == 2 * len(files)


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_jumps_loses_no_row_and_keeps_no_replaced_part(
    cache: RefLogprobCache, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    for start in range(2):
        cache.put_many(rows(1, start=start), values(rows(1, start=start)))
    cache.compact()
    replaced = set(cache.directory.glob("part-*.parquet"))
    later = time.time() + hours * 3600
    monkeypatch.setattr("grpo_core.store.ref_merges.time.time", lambda: later)
    for start in range(2, 4):
        cache.put_many(rows(1, start=start), values(rows(1, start=start)))
    cache.compact()
    assert len(replaced & set(cache.directory.glob("part-*.parquet"))) == 1
    fresh = RefLogprobCache(cache.directory.parent, FINGERPRINT)
    assert all(found is not None for found in fresh.get_many(rows(4)))
    assert fresh.num_rows == 4


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (np.zeros(3, np.float64), "dtype float64"),
        (np.zeros(3, np.float16), "dtype float16"),
        (np.zeros((3, 1), np.float32), "shape"),
        (np.float32(0), "shape"),
        (np.zeros(2, np.float32), "shape"),
        (np.array([0, np.nan, 0], np.float32), "NaN"),
        (np.array([0, 0.5, 0], np.float32), "above 0"),
    ],
)
def test_bad_values_are_refused(cache: RefLogprobCache, bad: np.ndarray, reason: str) -> None:
    with pytest.raises(DataContractError, match=reason):
        cache.put((1,), (1, 2, 3), 1.0, bad)
    assert cache.get((1,), (1, 2, 3), 1.0) is None


@pytest.mark.parametrize("bad_row", [0, 2999, 5999])
def test_one_bad_row_leaves_nothing_of_its_append(cache: RefLogprobCache, bad_row: int) -> None:
    items = rows(6000)
    wrong = values(items)
    wrong[bad_row] = wrong[bad_row] + np.float32(1)
    with pytest.raises(DataContractError, match=items[bad_row].key):
        cache.put_many(items, wrong)
    assert not list(cache.directory.glob("*part-*"))
    assert cache.num_rows == 0
    assert cache.put_many(items, values(items)) == 6000


@pytest.mark.parametrize("damage", ["truncate", "flip", "foreign", "link"])
def test_a_damaged_part_is_a_miss_and_can_be_filled_again(
    cache: RefLogprobCache, tmp_path: Path, damage: str
) -> None:
    cache.put_many(rows(300), values(rows(300)))
    part = next(cache.directory.glob("part-*.parquet"))
    data = bytearray(part.read_bytes())
    if damage == "truncate":
        part.write_bytes(data[:-9])
    elif damage == "flip":
        data[len(data) // 3] ^= 1
        part.write_bytes(data)
    elif damage == "foreign":
        other = RefLogprobCache(tmp_path, Fingerprint("x" * 64, "t" * 64, "float32", "sdpa"))
        other.put_many(rows(300), values(rows(300)))
        part.write_bytes(next(other.directory.glob("part-*.parquet")).read_bytes())
    else:
        part.rename(tmp_path / "elsewhere")
        part.symlink_to(tmp_path / "elsewhere")
    fresh = RefLogprobCache(tmp_path, FINGERPRINT)
    assert fresh.get_many(rows(300)) == [None] * 300
    assert fresh.put_many(rows(300), values(rows(300))) == 300
    assert all(found is not None for found in fresh.get_many(rows(300)))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.ESTALE, "Stale file handle"),
        pa.ArrowMemoryError("malloc of size 64 failed"),
    ],
    ids=lambda error: type(error).__name__ + str(getattr(error, "errno", "")),
)
def test_an_error_that_passes_damages_no_part(
    cache: RefLogprobCache, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    cache.put_many(rows(3), values(rows(3)))
    (name,) = list_parts(cache.directory)

    def fail(*_: object, **__: object) -> None:
        raise error

    is_system = isinstance(error, OSError)
    expected = (FileUnreadableError, name) if is_system else (type(error), "malloc")
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read_row_groups", fail)
        with pytest.raises(expected[0], match=expected[1]):
            cache.put_many(rows(5), values(rows(5)))
    assert cache.put_many(rows(5), values(rows(5))) == 2


def test_no_file_descriptor_left_damages_no_part(cache: RefLogprobCache) -> None:
    cache.put_many(rows(3), values(rows(3)))
    (name,) = list_parts(cache.directory)
    with no_descriptor_left(), pytest.raises(FileUnreadableError, match="Too many open files"):
        read_keys(cache.directory, name, FINGERPRINT.digest)
    assert read_keys(cache.directory, name, FINGERPRINT.digest) == [row.key for row in rows(3)]


@pytest.mark.parametrize("damage", ["truncate", "delete", "foreign"])
def test_an_index_is_made_again_from_its_part(
    cache: RefLogprobCache, tmp_path: Path, damage: str
) -> None:
    cache.put_many(rows(300), values(rows(300)))
    index = next(cache.directory.glob("part-*.index.npy"))
    if damage == "truncate":
        index.write_bytes(index.read_bytes()[:-9])
    elif damage == "foreign":
        np.save(index, build_index([row.key for row in rows(300)[::-1]]))
    else:
        index.unlink()
    fresh = RefLogprobCache(tmp_path, FINGERPRINT)
    for row, found in zip(rows(300), fresh.get_many(rows(300)), strict=True):
        np.testing.assert_array_equal(found, values([row])[0])


def halves(kind: str, count: int) -> np.ndarray:
    exact = -np.random.default_rng(0).exponential(1, count).astype(np.float32) - 0.6
    if kind == "bf16":
        return (exact.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return exact.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
@pytest.mark.parametrize("lengths", [(40,), (1, 2, 3, 2)])
def test_rounded_values_are_refused(
    cache: RefLogprobCache, kind: str, lengths: tuple[int, ...]
) -> None:
    items = [RefRow((n,), range(length), 1.0) for n, length in enumerate(lengths)]
    with pytest.raises(DataContractError, match="bf16 or fp16"):
        cache.put_many(items, np.split(halves(kind, sum(lengths)), np.cumsum(lengths)[:-1]))


def test_a_rounded_row_among_exact_ones_is_refused_and_zeros_are_not(
    cache: RefLogprobCache,
) -> None:
    items = [RefRow((n,), range(8), 1.0) for n in range(3)]
    exact = -np.arange(1, 9, dtype=np.float32) / 7
    cache.put_many(items, [exact, np.zeros(8, np.float32), exact])
    with pytest.raises(DataContractError, match=items[1].key):
        cache.put_many(items, [exact, halves("bf16", 8), exact])


def test_small_parts_become_large_ones(cache: RefLogprobCache) -> None:
    for start in range(80):
        cache.put_many(rows(1, start=start), values(rows(1, start=start)))
    assert len(list_parts(cache.directory)) < 20
    assert cache.compact()[1] == 1
    assert cache.num_rows == 80
    for row, found in zip(rows(80), cache.get_many(rows(80)), strict=True):
        np.testing.assert_array_equal(found, values([row])[0])


def test_who_scored_a_row_survives_a_merge(cache: RefLogprobCache) -> None:
    cache.put_many(rows(2), values(rows(2)), scored_by="a")
    cache.put_many(rows(3), values(rows(3)), scored_by="b")
    cache.compact()
    assert cache.read(rows(4)).scored_by == ["a", "a", "b", ""]


def test_a_reader_looks_again_when_a_merge_took_its_parts(
    cache: RefLogprobCache, tmp_path: Path
) -> None:
    for start in (0, 5):
        cache.put_many(rows(5, start=start), values(rows(5, start=start)))
    reader = RefLogprobCache(tmp_path, FINGERPRINT)
    assert reader.get_many(rows(10))[9] is not None
    listed = dict(reader._indices)
    cache.compact()
    with pytest.MonkeyPatch.context() as patch:
        answers = [listed]
        load = RefLogprobCache._load_indices
        patch.setattr(
            RefLogprobCache, "_load_indices", lambda self: answers.pop() if answers else load(self)
        )
        assert all(found is not None for found in reader.get_many(rows(10)))


def _append_all(root: Path, start: int) -> None:
    cache = RefLogprobCache(root, FINGERPRINT)
    for first in range(start, start + 40, 4):
        cache.put_many(rows(8, start=first), values(rows(8, start=first)))
        assert all(found is not None for found in cache.get_many(rows(8, start=first)))


def test_processes_append_and_merge_at_once_without_loss_or_duplicate(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_append_all, args=(tmp_path, n * 10)) for n in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    cache = RefLogprobCache(tmp_path, FINGERPRINT)
    assert cache.num_rows == 74
    for row, found in zip(rows(74), cache.get_many(rows(74)), strict=True):
        np.testing.assert_array_equal(found, values([row])[0])


@pytest.mark.parametrize("largest_logit", [8.0, 31.0, 120.0])
def test_confident_tokens_are_not_taken_for_rounded_ones(
    cache: RefLogprobCache, largest_logit: float
) -> None:
    """Their log-probs are few last places of the logits, whose low bits are zero in fp32."""
    gap = np.random.default_rng(0).exponential(1e-3, 4000).astype(np.float32)
    logit = np.float32(largest_logit) + np.random.default_rng(1).random(4000, dtype=np.float32)
    logprobs = logit - (logit + gap)
    assert ((logprobs.view(np.uint32) & 0x1FFF) == 0).mean() > 0.7
    items = [RefRow((n,), range(40), 1.0) for n in range(100)]
    assert cache.put_many(items, np.split(logprobs, 100)) == 100
