"""How samples are numbered is counted exactly, whatever the indices."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from lake_fixture import LakeFixture, make_lake

from grpo_core.store.warehouse import Warehouse

INDICES = {
    "dense": [0, 1, 2, 3, 4, 5, 6, 7],
    "over the bits": [60, 61, 62, 63, 64, 65, 127, 128],
    "repeated on both sides of 64": [0, 0, 63, 63, 64, 64, 1000, 1000],
    "negative": [-1, -1, -2, 0, 1, 2, 3, 2**31 - 1],
    "one": [63, 63, 63, 63, 63, 63, 63, 63],
}


@pytest.fixture(scope="module")
def sound() -> LakeFixture:
    return make_lake()


@pytest.mark.parametrize("name", INDICES)
def test_distinct_indices_are_counted_exactly(
    name: str, sound: LakeFixture, tmp_path: Path
) -> None:
    lake = copy.deepcopy(sound)
    rows = lake.rows("samples", "samples")[: len(INDICES[name])]
    assert len({row["prompt_id"] for row in rows}) == 1
    for row, index in zip(rows, INDICES[name], strict=True):
        row["sample_index"] = index
    with Warehouse(lake.write(tmp_path)) as warehouse:
        (found,) = warehouse.query(
            "select num_rows, num_distinct, first_index, last_index from sample_numbering "
            f"where table_name = 'samples' and unit = '{rows[0]['prompt_id']}'"
        ).dicts()
    assert found == {
        "num_rows": len(INDICES[name]),
        "num_distinct": len(set(INDICES[name])),
        "first_index": min(INDICES[name]),
        "last_index": max(INDICES[name]),
    }


def test_every_numbered_table_is_counted(sound: LakeFixture, tmp_path: Path) -> None:
    with Warehouse(sound.write(tmp_path)) as warehouse:
        counted = warehouse.query(
            "select table_name, sum(num_rows)::bigint as n, sum(num_distinct)::bigint as d "
            "from sample_numbering group by table_name"
        ).dicts()
    tables = ("samples", "verdicts", "eval_samples", "eval_verdicts", "rollouts")
    expected = {name: len(list(sound.all_rows(name))) for name in tables}
    assert {row["table_name"]: row["n"] for row in counted} == expected
    assert all(row["n"] == row["d"] for row in counted)


def verdict_lost(lake: LakeFixture) -> None:
    lake.rows("verdicts", "verdicts").pop(3)


def sample_twice(lake: LakeFixture) -> None:
    rows = lake.rows("samples", "samples")
    rows.append(dict(rows[5]))


def other_indices(lake: LakeFixture) -> None:
    for row in lake.rows("samples", "samples"):
        row["sample_index"] += 60


def verdicts_of_an_unknown_prompt(lake: LakeFixture) -> None:
    for row in lake.rows("verdicts", "verdicts")[:3]:
        row["prompt_id"] = "unknown"


@pytest.mark.parametrize(
    "change", [verdict_lost, sample_twice, other_indices, verdicts_of_an_unknown_prompt]
)
def test_pass_rates_of_unpaired_prompts_are_those_of_their_pairs(
    change: Callable[[LakeFixture], None], sound: LakeFixture, tmp_path: Path
) -> None:
    lake = copy.deepcopy(sound)
    change(lake)
    pairs = (
        "select s.prompt_id, count(*) as n, "
        "count(*) filter (where label = 'correct') as num_correct, "
        "sum(num_completion_tokens)::bigint as num_tokens "
        "from samples as s join verdicts as v using (prompt_id, sample_index) "
        "group by s.prompt_id order by s.prompt_id"
    )
    rates = (
        "select prompt_id, n, num_correct, num_tokens from prompt_pass_rates "
        "where phase = 0 order by prompt_id"
    )
    with Warehouse(lake.write(tmp_path)) as warehouse:
        assert warehouse.query("select count(*) as n from unpaired_prompts").dicts()[0]["n"] > 0
        assert warehouse.query(rates).dicts() == warehouse.query(pairs).dicts()
    with Warehouse(sound.write(tmp_path / "sound")) as warehouse:
        assert warehouse.query("from unpaired_prompts").dicts() == []
        assert warehouse.query(rates).dicts() == warehouse.query(pairs).dicts() != []
