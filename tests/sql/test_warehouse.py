"""The lake as SQL: views over complete artefacts, read-only queries, reports."""

import copy
import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_fixture import EMPTY, LakeFixture, count_in_database, write_parts

from grpo_core.audits import audit_run, restrict_to_run
from grpo_core.errors import DataContractError
from grpo_core.store.catalog import Catalog, DamagedEntry
from grpo_core.store.lake_database import write_lake_database
from grpo_core.store.schemas import TABLES
from grpo_core.store.warehouse import Warehouse


def test_empty_lake_has_typed_views() -> None:
    with Warehouse(EMPTY) as warehouse:
        assert warehouse.query("select count(*) as n from rollouts").dicts() == [{"n": 0}]
        assert warehouse.query("select * from pass_at_k").dicts() == []
        kinds = warehouse.query("select sampling_logprobs, step from rollouts").schema.types
    assert kinds == [pa.list_(pa.float32()), pa.int64()]


def test_rows_come_back_as_written(lake: LakeFixture, catalog: Catalog) -> None:
    sql = "select prompt_id, sample_index, sampling_logprobs from samples order by all"
    with Warehouse(catalog) as warehouse:
        rows = list(warehouse.query(sql).rows())
    expected = sorted(
        (row["prompt_id"], row["sample_index"], row["sampling_logprobs"])
        for row in lake.rows("samples", "samples")
    )
    assert rows == expected


def test_older_part_without_a_column_reads_as_null(catalog: Catalog, tmp_path: Path) -> None:
    entry = next(entry for entry in catalog.entries if "steps" in entry.tables)
    table = pq.read_table(entry.tables["steps"][0]).drop_columns(["ref_cache_hit_rate"])
    pq.write_table(
        table.append_column("extra", pa.array(range(len(table)))), tmp_path / "old.parquet"
    )
    old = dataclasses.replace(entry, tables={"steps": (tmp_path / "old.parquet",)})
    with Warehouse(Catalog((old,), (), (), {})) as warehouse:
        rows = warehouse.query("select ref_cache_hit_rate, loss from steps").dicts()
    assert {row["ref_cache_hit_rate"] for row in rows} == {None}
    assert all(math.isfinite(row["loss"]) for row in rows)


def test_paths_with_quotes_spaces_and_globs(lake: LakeFixture, tmp_path: Path) -> None:
    directory = tmp_path / "o'ne [two] *three* ?"
    catalog = copy.deepcopy(lake).write(directory)
    with Warehouse(catalog) as warehouse:
        rows = warehouse.query("select count(*) as n from samples").dicts()
    assert rows == [{"n": len(lake.rows("samples", "samples"))}]
    write_lake_database(catalog, tmp_path / "lake.duckdb")
    assert count_in_database(tmp_path / "lake.duckdb") == rows[0]["n"]


def test_latest_attempt_of_a_run_counts(catalog: Catalog) -> None:
    nodes = [node for node in catalog.run_artifacts if node.stage != "train"]
    later = [dataclasses.replace(node, attempt=2) for node in nodes]
    both = dataclasses.replace(catalog, run_artifacts=(*catalog.run_artifacts, *later))
    with Warehouse(both) as warehouse:
        assert warehouse.query("select * from run_steps").dicts() == []
        assert warehouse.query("select distinct attempt from run_nodes").dicts() == [{"attempt": 2}]
        assert warehouse.query("from steps").dicts() != []


def test_runs_share_artifacts_without_mixing(catalog: Catalog) -> None:
    other = [dataclasses.replace(node, run="other") for node in catalog.run_artifacts]
    both = dataclasses.replace(catalog, run_artifacts=(*catalog.run_artifacts, *other))
    with Warehouse(both) as warehouse:
        rows = warehouse.query("select run, count(*) as n from run_rollouts group by run").dicts()
        one = warehouse.query("select count(*) as n from rollouts").dicts()[0]["n"]
        used = warehouse.run_report("lineage", {"run": "tiny"}).dicts()
    assert {row["run"]: row["n"] for row in rows} == {"tiny": one, "other": one}
    assert {row["also_used_by"] for row in used} == {"other"}


def test_restrict_to_run_keeps_what_its_latest_attempt_uses(catalog: Catalog) -> None:
    stray = dataclasses.replace(catalog.entries[0], key="f" * 64)
    wide = dataclasses.replace(catalog, entries=(*catalog.entries, stray))
    assert restrict_to_run(wide, "tiny").entries == catalog.entries
    used, old = (
        DamagedEntry("train", node.key, f"artifacts/train/{node.key}/{name}", "torn")
        for node in catalog.run_artifacts[:1]
        for name in (node.content[:12], "0" * 12)
    )
    torn = dataclasses.replace(catalog, damaged=(used, old))
    assert restrict_to_run(torn, "tiny").damaged == (used,)
    with pytest.raises(DataContractError, match="no run is named 'nope'"):
        audit_run(catalog, "nope")


def test_live_views_read_units_in_progress(lake: LakeFixture, tmp_path: Path) -> None:
    rows = lake.rows("train/1", "steps")
    files = tuple(write_parts(tmp_path / "units", "steps", rows))
    live = {"steps": (*files, tmp_path / "gone.parquet")}
    with Warehouse(Catalog((), (), (), live)) as warehouse:
        assert warehouse.query("select count(*) as n from live_steps").dicts() == [{"n": len(rows)}]
        assert warehouse.query("select * from live_rollouts").dicts() == []
        assert warehouse.query("select * from steps").dicts() == []


def test_damaged_artifacts_are_listed(lake: LakeFixture, tmp_path: Path) -> None:
    entry = DamagedEntry("train", "k" * 64, "artifacts/train/k", "part-00000.parquet is missing")
    with Warehouse(Catalog((), (entry,), (), {})) as warehouse:
        (row,) = warehouse.query("select * from damaged").dicts()
    assert dataclasses.asdict(entry) == {**row, "hint": "", "is_unreadable": False}


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to '{path}'",
        "with x as (copy (select 1) to '{path}' (use_tmp_file false)) select * from x",
        "select * from (with x as (copy (select 1) to '{path}') select * from x)",
        "select * from enable_logging(storage = 'file', storage_config = {{'path': '{path}'}})",
        "attach '{path}'",
        "export database '{path}'",
        "create table t as select 1",
        "insert into run_artifacts select * from run_artifacts",
        "with x as (delete from run_artifacts returning *) select * from x",
        "drop view samples",
        "set threads = 1",
        "pragma threads = 1",
        "install httpfs",
        "load httpfs",
        "call pragma_version()",
        "explain analyze select 1",
        "select 1; copy (select 1) to '{path}'",
        "",
    ],
)
def test_only_one_select_runs(sql: str, catalog: Catalog, tmp_path: Path) -> None:
    with Warehouse(catalog) as warehouse:
        before = warehouse.query("select count(*) as n from run_artifacts").dicts()
        with pytest.raises(DataContractError):
            warehouse.query(sql.format(path=tmp_path / "written")).dicts()
        assert warehouse.query("select count(*) as n from run_artifacts").dicts() == before
    assert list(tmp_path.iterdir()) == []


def test_artifacts_can_not_be_overwritten(catalog: Catalog) -> None:
    path = catalog.entries[0].tables["prompts"][0]
    before = path.read_bytes()
    with Warehouse(catalog) as warehouse, pytest.raises(DataContractError, match="read-only"):
        warehouse.query(
            f"with x as (copy (select 1) to '{path}' (use_tmp_file false, format parquet)) from x"
        )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/hostname')",
        "select * from read_csv('https://example.org/x.csv')",
        "select * from glob('/*')",
    ],
)
def test_other_files_and_the_network_are_out_of_reach(sql: str, catalog: Catalog) -> None:
    with Warehouse(catalog) as warehouse, pytest.raises(DataContractError, match="disabled"):
        warehouse.query(sql)


def test_python_variables_are_out_of_reach(catalog: Catalog) -> None:
    secret = pa.table({"a": [1]})
    assert secret.num_rows
    with Warehouse(catalog) as warehouse, pytest.raises(DataContractError, match="not exist"):
        warehouse.query("select * from secret")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("selec 1", "syntax error"),
        ("select prompt from samples", "prompt_id"),
        ("select * from sampels", "samples"),
        ("select 1 / 'a'", "Could not convert"),
    ],
)
def test_errors_are_duckdbs_own(sql: str, message: str, catalog: Catalog) -> None:
    with Warehouse(catalog) as warehouse, pytest.raises(DataContractError, match=message):
        warehouse.query(sql).dicts()


@pytest.mark.parametrize(
    "sql",
    [
        "show tables",
        "describe pass_at_k",
        "summarize steps",
        "from samples limit 1",
        "SELECT count(*) FROM Samples",
        "select count(*) from query('select * from samples')",
        "select count(*) from query_table('samples')",
        "select table_name from information_schema.tables",
        "values (1)",
    ],
)
def test_every_kind_of_select_runs(sql: str, catalog: Catalog) -> None:
    with Warehouse(catalog) as warehouse:
        assert warehouse.query(sql).dicts()[0] not in ({"count_star()": 0}, {})


def test_two_results_can_be_read_at_once(catalog: Catalog) -> None:
    with Warehouse(catalog) as warehouse:
        first = warehouse.query("select * from samples").rows()
        second = warehouse.query("select * from steps").rows()
        assert next(first)
        assert next(second)
        assert next(first)


def test_results_stream(catalog: Catalog) -> None:
    with Warehouse(catalog) as warehouse:
        batches = warehouse.query("select range as n from range(100_000)").batches()
        assert next(batches).num_rows < 10_000


def test_rows_beyond_the_memory_limit_go_to_temporary_files() -> None:
    sql = "select range as n, md5(range::varchar) as h from range(1_000_000) order by h"
    spilled = "select count(*) as n from duckdb_temporary_files()"
    with Warehouse(EMPTY, threads=1, memory_bytes=40 << 20) as warehouse:
        batches = warehouse.query(sql).batches()
        num_rows = next(batches).num_rows
        assert warehouse.query(spilled).dicts()[0]["n"] > 0
        assert num_rows + sum(batch.num_rows for batch in batches) == 1_000_000


def test_reports_check_their_parameters(catalog: Catalog) -> None:
    with Warehouse(catalog) as warehouse:
        with pytest.raises(DataContractError, match="no report 'nope'"):
            warehouse.run_report("nope")
        with pytest.raises(DataContractError, match="no parameter runn"):
            warehouse.run_report("phases", {"runn": "tiny"})
        with pytest.raises(DataContractError, match="needs prompt_id"):
            warehouse.run_report("samples_of_prompt")
        with pytest.raises(DataContractError, match="no audit has a parameter group"):
            warehouse.run_audits({"group": 4})


def test_broken_audit_names_itself(catalog: Catalog) -> None:
    with (
        Warehouse(catalog) as warehouse,
        pytest.raises(DataContractError, match=r"assert_group_sizes: .*Could not convert"),
    ):
        warehouse.run_audits({"group_size": "many"})


def test_listing_has_grains_columns_and_parameters() -> None:
    with Warehouse(EMPTY) as warehouse:
        objects = {item.name: item for item in warehouse.list_objects()}
    assert set(TABLES) | {"run_artifacts", "damaged", "live_steps", "pass_at_k"} <= set(objects)
    assert all(item.grain for item in objects.values())
    k = next(column for column in objects["pass_at_k"].columns if column[0] == "k")
    assert k == ("k", "BIGINT", "draws")
    assert objects["samples_of_prompt"].params[0][:2] == ("prompt_id", "varchar")


def test_sql_needs_neither_torch_nor_prefect() -> None:
    code = (
        "import sys, grpo_core.store.warehouse;"
        "print([m for m in ('torch', 'prefect', 'pandas', 'polars') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "[]"
