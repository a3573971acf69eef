"""A reference cache that was damaged on disk: found before use, healed, no row lost or doubled."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_run import make_lake

from grpo_core.errors import ArtifactError, CacheStaleError
from grpo_core.store import Fingerprint, Lake, RefLogprobCache, RefRow
from grpo_core.store.files import read_json, write_json
from grpo_core.store.maintenance import compact, find_garbage, remove_garbage, verify
from grpo_core.store.ref_merges import list_parts

FINGERPRINT = Fingerprint("w" * 64, "t" * 64, "float32", "sdpa")
ROWS = [RefRow((1, 2, n), range(n % 7 + 1), 1.0) for n in range(300)]
KEYS = [row.key for row in ROWS]


def values(rows: list[RefRow]) -> list[np.ndarray]:
    return [-np.arange(len(r.completion_token_ids), dtype=np.float32) / 7 for r in rows]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def opened(lake: Lake) -> RefLogprobCache:
    return RefLogprobCache(lake.root / "ref_logprobs", FINGERPRINT)


def put(lake: Lake, rows: list[RefRow]) -> int:
    return opened(lake).put_many(rows, values(rows))


def part_of(lake: Lake) -> Path:
    return min(opened(lake).directory.glob("part-*.parquet"))


def index_of(part: Path) -> Path:
    return part.with_name(part.name.replace(".parquet", ".index.npy"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def without_digest(part: Path) -> None:
    """Write a part as an earlier release did: its footer says nothing of the index."""
    table = pq.read_table(part)
    assert b"grpo.index" in pq.read_metadata(part).metadata
    pq.write_table(table, part, row_group_size=256)
    assert b"grpo.index" not in pq.read_metadata(part).metadata


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("position", [130, 130 + 300 * 8, 130 + 2 * 300 * 8, -1])
def test_a_changed_byte_of_an_index_hides_and_doubles_no_row(
    lake: Lake, position: int, is_old: bool
) -> None:
    put(lake, ROWS)
    part = part_of(lake)
    if is_old:
        without_digest(part)
    before = index_of(part).read_bytes()
    opened(lake).missing(KEYS)
    flip(index_of(part), position)
    assert opened(lake).missing(KEYS) == []
    assert all(found is not None for found in opened(lake).get_many(ROWS))
    assert put(lake, ROWS) == 0
    assert opened(lake).num_rows == 300
    assert index_of(part).read_bytes() == before
    assert verify(lake).damaged == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda rows: rows[::-1].copy(), id="other rows"),
        pytest.param(lambda rows: rows + 10_000, id="rows that the part has not"),
        pytest.param(lambda rows: rows - np.uint64(1000), id="rows that no part has"),
    ],
)
def test_an_index_that_changes_under_a_reader_is_read_again(
    lake: Lake, changed: Callable[[np.ndarray], np.ndarray]
) -> None:
    put(lake, ROWS)
    reader = opened(lake)
    reader.missing(KEYS)
    index = np.load(index_of(part_of(lake)), mmap_mode="r+")
    index[2] = changed(index[2])
    index.flush()
    found = reader.get_many(ROWS)
    for expected, got in zip(values(ROWS), found, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert reader.put_many(ROWS, values(ROWS)) == 0
    assert list(reader.directory.glob("damaged-*")) == []
    assert reader.put_many(ROWS, values(ROWS)) == 0


@pytest.mark.parametrize("is_old", [False, True])
def test_an_index_of_another_part_hides_no_row(lake: Lake, is_old: bool) -> None:
    put(lake, ROWS[:100])
    put(lake, ROWS[100:200])
    first, second = sorted(opened(lake).directory.glob("part-*.parquet"))
    if is_old:
        without_digest(first)
    index_of(first).write_bytes(index_of(second).read_bytes())
    assert opened(lake).missing(KEYS[:200]) == []
    assert put(lake, ROWS) == 100
    assert opened(lake).num_rows == 300


def test_a_part_that_was_cut_is_missing_although_its_index_is_whole(lake: Lake) -> None:
    put(lake, ROWS)
    part = part_of(lake)
    part.write_bytes(part.read_bytes()[:-20])
    assert opened(lake).missing(KEYS) == KEYS
    assert put(lake, ROWS) == 300
    assert verify(lake).damaged == []


def test_a_damaged_page_is_set_aside_on_request_and_its_rows_are_missing(lake: Lake) -> None:
    put(lake, ROWS[:200])
    put(lake, ROWS[200:])
    part = part_of(lake)
    flip(part, part.stat().st_size // 3)
    assert opened(lake).set_aside_damaged() == 1
    assert opened(lake).missing(KEYS) == KEYS[:200]
    assert part.with_name(f"damaged-{part.name}").is_file()
    assert opened(lake).set_aside_damaged() == 0
    assert verify(lake).damaged == []


@pytest.mark.parametrize("heal", ["write", "compact", "gc"])
def test_an_index_without_its_part_goes(lake: Lake, heal: str) -> None:
    put(lake, ROWS[:5])
    put(lake, ROWS[5:9])
    part_of(lake).unlink()
    (lake.root / "partial/train/key").mkdir(parents=True)
    (entry,) = verify(lake).damaged
    assert "is missing" in entry.reason
    if heal == "write":
        assert put(lake, ROWS[:5]) == 5
    elif heal == "compact":
        compact(lake)
    else:
        remove_garbage(lake, find_garbage(lake))
    assert verify(lake).damaged == []
    assert opened(lake).missing(KEYS[5:9]) == []


def test_gc_decodes_no_row_to_learn_whether_a_cache_is_used(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = make_lake(lake.root)
    put(lake, ROWS)

    def refuse(*_: object) -> None:
        raise AssertionError("rows are decoded")

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", refuse)
    (item,) = find_garbage(used)
    assert item.path == opened(lake).directory.relative_to(lake.root)


@pytest.mark.parametrize("text", ["{", "", "[]", "null", "{}", '{"version": "x"}', None])
def test_a_damaged_fingerprint_file_is_named_and_written_again(
    lake: Lake, text: str | None
) -> None:
    put(lake, ROWS)
    path = opened(lake).directory / "fingerprint.json"
    before = path.read_bytes()
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert (lake.ref_caches(), lake.foreign_caches()) == ([], [])
    (entry,) = verify(lake).damaged
    assert str(path) in entry.reason
    assert find_garbage(lake) == []
    assert opened(lake).missing(KEYS) == []
    assert path.read_bytes() == before
    assert verify(lake).damaged == []


def test_a_fingerprint_that_says_another_reference_costs_no_row(lake: Lake) -> None:
    put(lake, ROWS)
    path = opened(lake).directory / "fingerprint.json"
    write_json(path, read_json(path) | {"weights": "x" * 64})
    (entry,) = verify(lake).damaged
    assert "does not give the directory its name" in entry.reason
    with pytest.raises(CacheStaleError, match="weights differ") as caught:
        opened(lake)
    assert "remove that file" in caught.value.hint
    path.unlink()
    assert opened(lake).missing(KEYS) == []


@pytest.mark.parametrize("name", ["merging.json", "replaced.json"])
@pytest.mark.parametrize("text", ["{", "[]", '{"parts": 1}'])
def test_a_damaged_note_of_a_merge_is_named_and_verify_goes_on(
    lake: Lake, name: str, text: str
) -> None:
    put(lake, ROWS)
    if text == '{"parts": 1}' and name == "replaced.json":
        text = '{"part-00000000-a": "then"}'
    note = opened(lake).directory / name
    note.write_text(text)
    (entry,) = verify(lake).damaged
    assert str(note) in entry.reason
    with pytest.raises(ArtifactError, match=name) as caught:
        opened(lake).missing(KEYS)
    assert "remove that file" in caught.value.hint
    note.unlink()
    assert opened(lake).missing(KEYS) == []


def test_a_merge_whose_process_died_shows_each_row_once(lake: Lake) -> None:
    put(lake, ROWS[:5])
    put(lake, ROWS[5:9])
    cache = opened(lake)
    before = list_parts(cache.directory)
    copies = [cache.directory / f"{name}.parquet" for name in before]
    note = {"parts": before, "before": before}
    cache.compact()
    (merged,) = list_parts(cache.directory)
    (cache.directory / "replaced.json").unlink()
    write_json(cache.directory / "merging.json", note)
    assert all(path.exists() for path in copies)
    assert list_parts(cache.directory) == [merged]
    shutil.move(cache.directory / f"{merged}.parquet", lake.root / "away")
    assert list_parts(cache.directory) == before


@pytest.mark.parametrize("is_read_first", [True, False])
@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_row_with_more_or_fewer_log_probs_than_tokens_is_damage(
    lake: Lake, length: int, is_read_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rows = ROWS[:20]
    wrong = values(rows)
    wrong[2] = np.full(length, -0.3, np.float32)  # has three tokens
    opened(lake).absorb([row.key for row in rows], wrong, ["elsewhere"] * len(rows))
    if is_read_first:
        assert opened(lake).get_many(rows) == [None] * len(rows)
    cache = opened(lake)
    assert cache.put_many(rows, values(rows)) == len(rows)
    assert f"row {rows[2].key} has {length} log-probs, not 3" in caplog.text
    for expected, got in zip(values(rows), opened(lake).get_many(rows), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_rows_in_any_order_and_of_several_parts_are_those_asked_for(lake: Lake) -> None:
    for start in range(0, 300, 100):
        put(lake, ROWS[start : start + 100])
    some = np.random.default_rng(0).permutation(300)[:250].tolist()
    asked = [ROWS[n] for n in some] + [RefRow((9,), (n,), 1.0) for n in range(3)]
    found = opened(lake).get_many(asked)
    assert found[250:] == [None] * 3
    for expected, got in zip(values(asked[:250]), found[:250], strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("has_statistics", [True, False])
def test_each_row_says_who_scored_it(lake: Lake, has_statistics: bool) -> None:
    rows = [RefRow((1, n), (n,), 1.0) for n in range(1500)]
    writers = [f"run {n // 700}" for n in range(1500)]  # a change within a row group
    for start in range(0, 1500, 700):
        part = rows[start : start + 700]
        opened(lake).put_many(part, values(part), scored_by=f"run {start // 700}")
    opened(lake).compact()
    if not has_statistics:  # as an earlier release wrote it
        path = part_of(lake)
        table = pq.read_table(path)
        pq.write_table(table, path, row_group_size=256, write_statistics=False)
    for chosen in (range(1500), range(1499, -1, -3), range(256), range(600, 800)):
        found = opened(lake).read([rows[n] for n in chosen])
        assert found.scored_by == [writers[n] for n in chosen]
