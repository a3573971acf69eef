"""Rows read in the order of writing, which are not sought one by one, and in all other orders."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from grpo_core.store import Fingerprint, RefLogprobCache, RefRow, ref_cache
from grpo_core.store.ref_parts import SCHEMA

ROWS = [RefRow((1, 2), range(1 + n % 7, 9 + n % 11), 1.0 + n / 1000) for n in range(600)]
VALUES = [
    -np.linspace(0.7, 0.9 + n / 1000, len(row.completion_token_ids), dtype=np.float32)
    for n, row in enumerate(ROWS)
]
ORDERS = {
    "all": list(range(600)),
    "a stretch over row groups": list(range(200, 560)),
    "one": [311],
    "backwards": list(reversed(range(600))),
    "two changed between the right ends": [0, 1, 3, 2, 4],
    "one twice and one not, between the right ends": [10, 11, 11, 13],
    "one twice": [5, 5],
    "far apart": [599, 0],
    "none": [],
}


@pytest.fixture
def cache(tmp_path: Path) -> RefLogprobCache:
    cache = RefLogprobCache(tmp_path, Fingerprint("w" * 64, "t" * 64, "float32", "eager"))
    cache.put_many(ROWS, VALUES, scored_by="prefilter")
    return cache


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_each_row_gets_its_own_values_in_any_order(
    cache: RefLogprobCache, order: list[int]
) -> None:
    found = cache.read([ROWS[n] for n in order])
    assert found.scored_by == ["prefilter"] * len(order)
    assert len(found.logprobs) == len(order)
    for n, values in zip(order, found.logprobs, strict=True):
        assert values is not None
        assert values.tobytes() == VALUES[n].tobytes()


def test_rows_of_several_parts_are_found_in_each(cache: RefLogprobCache) -> None:
    later = [RefRow((3,), range(2 + n), 1.0) for n in range(5)]
    cache.put_many(later, [np.full(2 + n, -0.7, np.float32) for n in range(5)], scored_by="train")
    found = cache.read([*later[:2], *ROWS[7:9], RefRow((4,), (4,), 1.0), *later[2:]])
    assert found.scored_by == ["train"] * 2 + ["prefilter"] * 2 + [""] + ["train"] * 3
    assert found.logprobs[4] is None
    assert cache.read(later).scored_by == ["train"] * 5


def test_rows_in_order_of_writing_are_read_without_a_search_for_each(
    cache: RefLogprobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sought(*_: object) -> None:
        raise AssertionError("a key was sought")

    monkeypatch.setattr(ref_cache, "search", sought)
    assert len(cache.read(ROWS[3:500]).logprobs) == 497
    with pytest.raises(AssertionError, match="a key was sought"):
        cache.read(ROWS[3:500:2])


def test_damage_met_in_order_of_writing_makes_the_rows_missing(cache: RefLogprobCache) -> None:
    part = next(cache.directory.glob("part-*.parquet"))
    raw = bytearray(part.read_bytes())
    lists = pq.read_metadata(part).row_group(1).column(SCHEMA.get_field_index("logprobs"))
    raw[lists.data_page_offset + lists.total_compressed_size // 2] ^= 0xFF
    part.write_bytes(raw)
    assert all(values is None for values in cache.get_many(ROWS))
