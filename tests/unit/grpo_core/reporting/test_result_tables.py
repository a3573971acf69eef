"""Nulls, NaN, lists and awkward texts survive in every output format."""

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from grpo_core.errors import DataContractError
from grpo_core.reporting.tables import Format, cell, format_result
from grpo_core.store.catalog import Catalog
from grpo_core.store.warehouse import Warehouse

SQL = """
select
    null as nothing, '' as empty, 'nan'::double as nan, '-inf'::float as low,
    [0.5, null, 'nan'::float] as items, range(40) as long, {'a': 1, 'b': [2]} as record,
    12345678901234567890123::hugeint as huge, 0.1 as tenth, true as yes,
    timestamptz '2026-01-01 02:00:00+02' as at, 'a,"b"' || chr(10) || chr(27) || '[31m' as text,
    1 as twice, 2 as twice
"""


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    with Warehouse(Catalog((), (), (), {})) as opened:
        yield opened


def written(warehouse: Warehouse, output_format: Format, sql: str = SQL) -> str:
    stream = io.StringIO()
    format_result(warehouse.query(sql), output_format, stream, width=400)
    return stream.getvalue()


def test_json_is_one_array_of_objects(warehouse: Warehouse) -> None:
    (row,) = json.loads(written(warehouse, "json"))
    assert row["nothing"] is None
    assert row["empty"] == ""
    assert (row["nan"], row["low"]) == ("NaN", "-Infinity")
    assert row["items"] == [0.5, None, "NaN"]
    assert row["long"] == list(range(40))
    assert row["record"] == {"a": 1, "b": [2]}
    assert row["huge"] == 12345678901234567890123
    assert row["tenth"] == 0.1
    assert row["at"] == "2026-01-01T00:00:00+00:00"
    assert (row["twice"], row["twice_1"]) == (1, 2)


def test_json_of_no_rows_is_an_empty_array(warehouse: Warehouse) -> None:
    assert json.loads(written(warehouse, "json", "select 1 as a where false")) == []


def test_csv_round_trips(warehouse: Warehouse) -> None:
    text = written(warehouse, "csv")
    assert ',"",NaN,-Infinity,' in text
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["text"] == 'a,"b"\n\x1b[31m'
    assert json.loads(row["items"]) == [0.5, None, "NaN"]
    assert row["huge"] == "12345678901234567890123"
    assert row["yes"] == "true"


def test_table_shortens_lists_and_shows_controls(warehouse: Warehouse) -> None:
    text = written(warehouse, "table")
    assert "[0, 1, 2, 3, 4, 5, … 40 in all]" in text
    assert "\x1b" not in text
    assert "␛[31m" in text
    assert "NaN" in text


def test_table_stops_and_says_so(warehouse: Warehouse) -> None:
    stream = io.StringIO()
    shown = format_result(warehouse.query("from range(1500)"), "table", stream, width=80)
    assert shown == 1000
    assert "first 1000 rows" in stream.getvalue()


def test_parquet_keeps_types(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert format_result(warehouse.query(SQL), "parquet", path) == 1
    (row,) = pq.read_table(path).to_pylist()
    assert row["nothing"] is None
    assert math.isnan(row["nan"])
    assert row["items"][:2] == [0.5, None]
    assert row["twice_1"] == 2


def test_parquet_goes_to_a_pipe_but_not_to_text(warehouse: Warehouse, tmp_path: Path) -> None:
    with (tmp_path / "piped.parquet").open("w", encoding="utf-8") as stream:
        format_result(warehouse.query("select 1 as a"), "parquet", stream)
    assert pq.read_table(tmp_path / "piped.parquet").to_pylist() == [{"a": 1}]
    with pytest.raises(DataContractError, match="terminal"):
        format_result(warehouse.query("select 1"), "parquet", io.StringIO())


def test_parquet_says_which_type_it_can_not_hold(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(DataContractError, match="interval"):
        format_result(warehouse.query("select interval 1 day"), "parquet", tmp_path / "x.parquet")


def test_file_and_unknown_format(warehouse: Warehouse, tmp_path: Path) -> None:
    format_result(warehouse.query("select 'é' as a"), "csv", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == "a\né\n".encode()
    with pytest.raises(DataContractError, match="unknown format"):
        format_result(warehouse.query("select 1"), "xml", tmp_path / "a.xml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (True, "true"), (3, "3"), (1 / 3, "0.333333"), (float("inf"), "inf"), ([], "[]")],
)
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text
