"""The reference cache: exact keys, no duplicates, no foreign fingerprint, no damaged row."""

from pathlib import Path

import numpy as np
import pytest

from grpo_core.errors import CacheStaleError, DataContractError
from grpo_core.store import Fingerprint, RefLogprobCache, RefRow
from grpo_core.store.files import read_json, write_json

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


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (np.zeros(3, np.float64), "dtype float64"),
        (np.zeros(2, np.float32), "shape"),
        (np.array([0, np.nan, 0], np.float32), "NaN"),
        (np.array([0, 0.5, 0], np.float32), "above 0"),
    ],
)
def test_bad_values_are_refused(cache: RefLogprobCache, bad: np.ndarray, reason: str) -> None:
    with pytest.raises(DataContractError, match=reason):
        cache.put((1,), (1, 2, 3), 1.0, bad)
    assert cache.get((1,), (1, 2, 3), 1.0) is None


@pytest.mark.parametrize("suffix", [".parquet", ".index.npy"])
def test_a_damaged_part_is_a_miss_and_can_be_filled_again(
    cache: RefLogprobCache, tmp_path: Path, suffix: str
) -> None:
    cache.put_many(rows(3), values(rows(3)))
    part = next(cache.directory.glob(f"part-*{suffix}"))
    part.write_bytes(part.read_bytes()[:-9])
    fresh = RefLogprobCache(tmp_path, FINGERPRINT)
    assert fresh.get_many(rows(3)) == [None] * 3
    assert fresh.put_many(rows(3), values(rows(3))) == 3
    assert all(found is not None for found in fresh.get_many(rows(3)))
