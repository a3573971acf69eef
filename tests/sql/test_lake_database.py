"""`lake.duckdb`: what other DuckDB clients see of the lake."""

import struct
import subprocess
import sys
from pathlib import Path

import duckdb
from lake_fixture import EMPTY, count_in_database

from grpo_core.store.catalog import Catalog
from grpo_core.store.lake_database import write_lake_database
from grpo_core.store.warehouse import Warehouse


def test_lake_database_opens_in_duckdb_1(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "lake.duckdb"
    write_lake_database(catalog, path)
    storage_version = struct.unpack_from("<Q", path.read_bytes(), 12)[0]
    assert storage_version == 64  # what DuckDB 0.10 to 1.1 write
    assert [item.name for item in tmp_path.iterdir()] == ["lake.duckdb"]


def test_lake_database_answers_like_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    write_lake_database(catalog, tmp_path / "lake.duckdb")
    sql = "select phase, k, round(estimate, 9) from pass_at_k where run = 'tiny' order by all"
    with Warehouse(catalog) as warehouse:
        expected = list(warehouse.query(sql).rows())
    with duckdb.connect(tmp_path / "lake.duckdb", read_only=True) as client:
        assert client.execute(sql).fetchall() == expected
        views = client.execute("select view_name from duckdb_views() where not internal").fetchall()
        for (view,) in views:
            client.execute(f"select count(*) from {view}").fetchall()


def test_lake_database_is_replaced_under_an_open_client(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "lake.duckdb"
    write_lake_database(catalog, path)
    with duckdb.connect(path, read_only=True) as client:
        write_lake_database(EMPTY, path)
        assert client.execute("select count(*) from samples").fetchall()[0][0] > 0
    assert count_in_database(path) == 0


def test_lake_database_is_replaced_beside_a_writer_in_another_process(
    catalog: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "lake.duckdb"
    write_lake_database(EMPTY, path)
    code = (
        "import duckdb, sys, os; c = duckdb.connect(sys.argv[1]);"
        "c.execute('create table mine as select 1'); print('open', flush=True);"
        "sys.stdin.readline(); os._exit(1)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdin is not None
        assert client.stdout.readline() == "open\n"
        assert path.with_name("lake.duckdb.wal").exists()
        write_lake_database(catalog, path)
        client.stdin.write("\n")
        client.stdin.close()
    assert count_in_database(path) > 0
