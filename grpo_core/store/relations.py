"""What the views of `sql/` stand on, made from a catalog inside a DuckDB connection.

Small tables `artifact_files`, `run_artifacts`, `damaged`, and one relation `<table>_files` per core
table over the Parquet files of complete artefacts (`live_<table>_files` over the unit files of
phases in progress, `ref_logprobs_files` over the parts of the reference caches). A relation starts
as an empty typed SELECT, so that views over it bind without opening a file; `attach_files` then
puts the files under it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from grpo_core.store.catalog import Catalog
from grpo_core.store.queries import Query
from grpo_core.store.ref_parts import SCHEMA as REF_LOGPROBS
from grpo_core.store.schemas import TABLES

REF_FILES = "ref_logprobs_files"
LIVE_TABLES = ("rollouts", "steps", "events")

_ARTIFACT_FILES = pa.schema(
    [
        ("file", pa.string()),
        ("table_name", pa.string()),
        ("kind", pa.string()),
        ("stage", pa.string()),
        ("key", pa.string()),
        ("content", pa.string()),
        ("is_current", pa.bool_()),
        ("ref_fingerprint", pa.string()),
        ("has_older_cache", pa.bool_()),
    ]
)
_DAMAGED = pa.schema([(name, pa.string()) for name in ("stage", "key", "path", "reason")])
_RUN_ARTIFACTS = pa.schema(
    [
        ("run", pa.string()),
        ("attempt", pa.int32()),
        ("stage", pa.string()),
        ("label", pa.string()),
        ("kind", pa.string()),
        ("phase", pa.int32()),
        ("key", pa.string()),
        ("content", pa.string()),
        ("state", pa.string()),
        ("seconds", pa.float64()),
        ("tokens", pa.int64()),
        ("finished_at", pa.string()),
    ]
)
CATALOG_TABLES = {
    "artifact_files": _ARTIFACT_FILES,
    "damaged": _DAMAGED,
    "run_artifacts": _RUN_ARTIFACTS,
}
REGRADED_TABLES = {
    "regraded": pa.schema(
        [
            ("stage", pa.string()),
            ("phase", pa.int32()),
            ("step", pa.int64()),
            ("group_index", pa.int32()),
            ("prompt_id", pa.string()),
            ("variant_id", pa.string()),
            ("sample_index", pa.int32()),
            ("label_before", pa.string()),
            ("label_after", pa.string()),
            ("reward_before", pa.float64()),
            ("reward_after", pa.float64()),
            ("extracted_before", pa.string()),
            ("extracted_after", pa.string()),
            ("gold", pa.string()),
            ("reason", pa.string()),
            ("completion_text", pa.string()),
        ]
    ),
    "regraded_bands": pa.schema(
        [
            ("phase", pa.int32()),
            ("prompt_id", pa.string()),
            ("band_before", pa.string()),
            ("band_after", pa.string()),
            ("pass_rate_before", pa.float64()),
            ("pass_rate_after", pa.float64()),
        ]
    ),
}
"""What `grpo regrade` fills for its queries; `completion_text` is null where nothing changed."""
CATALOG_GRAINS = {
    "artifact_files": "one Parquet file of a complete artefact",
    "damaged": "one artefact that is left out of every view, or a run whose records are damaged",
    "run_artifacts": "one artefact used by one attempt of a run",
}
_SCALARS = {
    pa.string(): "varchar",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
}


def base_files(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Map each base relation to the absolute paths of its files, in catalog order."""
    files: dict[str, list[str]] = {f"{table}_files": [] for table in TABLES}
    for entry in catalog.entries:
        for table, paths in entry.tables.items():
            if table in TABLES:
                files[f"{table}_files"] += map(os.path.abspath, paths)
    for table in LIVE_TABLES:
        live = filter(Path.exists, catalog.live_files.get(table, ()))
        files[f"live_{table}_files"] = [os.path.abspath(path) for path in live]
    files[REF_FILES] = [os.path.abspath(path) for path in catalog.ref_parts]
    return {name: tuple(dict.fromkeys(paths)) for name, paths in files.items()}


def create_catalog_tables(connection: Any, catalog: Catalog) -> None:
    """Create `artifact_files`, `run_artifacts` and `damaged`."""
    for name, rows in _catalog_rows(catalog).items():
        table = pa.Table.from_pylist(list(rows), CATALOG_TABLES[name])
        connection.register("catalog_rows", table)
        connection.execute(f"create table {name} as select * from catalog_rows")
        connection.unregister("catalog_rows")


def create_regraded_tables(connection: Any, rows: Mapping[str, pa.Table]) -> None:
    """Create `regraded` and `regraded_bands`, empty unless `rows` has them."""
    for name, schema in REGRADED_TABLES.items():
        connection.register("regraded_rows", rows.get(name, schema.empty_table()))
        connection.execute(f"create table {name} as select * from regraded_rows")
        connection.unregister("regraded_rows")


def create_views(connection: Any, bases: Iterable[str], views: Iterable[Query]) -> None:
    """Create empty base relations, then views over them, in order; again after an interrupt."""
    for name in bases:
        connection.execute(f"create or replace view {name} as {empty_select(name)}")
    for view in views:
        connection.execute(f"create or replace view {view.name} as {view.sql}")


def comment_grains(connection: Any, views: Iterable[Query]) -> None:
    """Say of every table and view what one row is, for clients that list comments."""
    for name, grain in CATALOG_GRAINS.items():
        connection.execute(f"comment on table {name} is {quote(grain)}")
    for view in views:
        connection.execute(f"comment on view {view.name} is {quote(view.grain)}")


def attach_files(connection: Any, files: Mapping[str, tuple[str, ...]]) -> None:
    """Put the Parquet files under base relations; without files a relation stays empty.

    `union all by name` after the empty typed SELECT gives columns that older artefacts lack, and
    leaves projection and filter pushdown as they are.
    """
    for name, paths in files.items():
        if not paths:
            continue
        listing = ", ".join(quote(path) for path in paths)
        connection.execute(
            f"create or replace view {name} as {empty_select(name)} union all by name "
            f"select * from read_parquet([{listing}], union_by_name = true, filename = true)"
        )


def empty_select(base: str) -> str:
    """A SELECT of no rows with the columns of a base relation and `filename`."""
    table = base.removeprefix("live_").removesuffix("_files")
    schema = REF_LOGPROBS if base == REF_FILES else TABLES[table].schema
    columns = [f'null::{sql_type(field.type)} as "{field.name}"' for field in schema]
    return f"select {', '.join(columns)}, null::varchar as filename where false"


def sql_type(kind: pa.DataType) -> str:
    """The DuckDB type of an Arrow type that the schemas use."""
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    return _SCALARS[kind]


def quote(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _catalog_rows(catalog: Catalog) -> dict[str, Iterator[dict[str, Any]]]:
    """Rows of the three catalog tables."""
    files = (
        {
            "file": os.path.abspath(path),
            "table_name": table,
            "kind": entry.kind,
            "stage": entry.stage,
            "key": entry.key,
            "content": entry.content,
            "is_current": entry.is_current,
            "ref_fingerprint": entry.ref_fingerprint,
            "has_older_cache": entry.has_older_cache,
        }
        for entry in catalog.entries
        for table, paths in entry.tables.items()
        for path in paths
    )
    return {
        "artifact_files": files,
        "damaged": (_as_row(row, _DAMAGED) for row in catalog.damaged),
        "run_artifacts": (_as_row(row, _RUN_ARTIFACTS) for row in catalog.run_artifacts),
    }


def _as_row(record: object, schema: pa.Schema) -> dict[str, Any]:
    return {name: getattr(record, name) for name in schema.names}
