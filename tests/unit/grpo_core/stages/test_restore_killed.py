"""`grpo lake restore` is killed before each file that it writes, renames or removes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fault_walk import run_until

from grpo_core.stages.restore import restore_rows
from grpo_core.store.lake import Lake
from grpo_core.store.maintenance import verify
from grpo_core.store.ref_rows import Found
from grpo_core.store.ref_usage import open_cache

pytestmark = pytest.mark.slow


def restore(lake: Lake) -> None:
    torch.set_num_threads(1)  # the threads of the parent are not those of a forked child
    restore_rows(lake, "mini")


def rows_of(cache: Path) -> tuple[list[str], Found]:
    opened = open_cache(cache)
    return opened.take(sorted(set(opened.keys())))


def same_rows(found: tuple[list[str], Found], expected: tuple[list[str], Found]) -> None:
    values = dict(zip(expected[0], expected[1].logprobs, strict=True))
    for key, got in zip(found[0], found[1].logprobs, strict=True):
        np.testing.assert_array_equal(got, values[key])


def test_a_restore_is_killed_before_every_file_that_it_writes(lake_copy: Path) -> None:
    lake = Lake(lake_copy)
    (cache,) = lake.ref_caches()
    expected = rows_of(cache)
    part = max(cache.glob("part-*.parquet"), key=lambda path: path.stat().st_size)
    part.write_bytes(part.read_bytes()[:-20])
    damaged = shutil.copytree(cache, lake_copy / "damaged")
    for operation in range(200):
        shutil.rmtree(cache)
        shutil.copytree(damaged, cache)
        was_killed = run_until(operation, cache, lambda: restore(lake), with_reads=False)
        same_rows(rows_of(cache), expected)
        restore(lake)
        assert verify(lake).damaged == []
        found = rows_of(cache)
        assert found[0] == expected[0]
        assert open_cache(cache).num_rows == len(expected[0])
        same_rows(found, expected)
        if not was_killed:
            assert operation > 10
            return
    raise AssertionError("the restore never finished")
