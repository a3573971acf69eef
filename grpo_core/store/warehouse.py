"""The lake as SQL: views in memory over complete artefacts, read-only queries, reports, audits.

A `Warehouse` makes only the views that a query reads. Queries from people run one SELECT each, with
DuckDB's configuration locked, no network and no file but the lake's Parquet, so that nothing can be
written. `write_lake_database` makes the same views for other DuckDB clients.
"""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from grpo_core.errors import DataContractError
from grpo_core.store.catalog import Catalog
from grpo_core.store.queries import SQL_DIRECTORY, Query, closure, order_views, read_queries
from grpo_core.store.relations import (
    CATALOG_GRAINS,
    attach_files,
    base_files,
    comment_grains,
    create_catalog_tables,
    create_views,
    quote,
)

STORAGE_VERSION = "v1.0.0"
BATCH_ROWS = 2048
AUDIT_ROWS = 20
_WORD = re.compile(r"\w+")
_LOOKS_AT_ALL = {"show", "query", "query_table", "information_schema", "sqlite_master"}
_SYSTEM = ("duckdb_", "pg_", "pragma_")
"""Words of queries that see views which they do not name."""
_READ_ONLY_HINT = "one SELECT (also FROM, WITH, DESCRIBE, SHOW, SUMMARIZE) at a time, nothing else"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows that stream from the database; may be read once.

    Args:
        schema: Arrow schema of the columns.
        reader: Record batches, in order.
    """

    schema: pa.Schema
    reader: pa.RecordBatchReader

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names; a query may name two alike."""
        return tuple(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow record batches.

        Raises:
            DataContractError: When the database fails in the middle, with its own message.
        """
        try:
            yield from self.reader
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise DataContractError(str(error).strip()) from error

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as tuples of Python values."""
        for batch in self.batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows()]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What one audit found.

    Args:
        name: Name of the audit, `assert_…`.
        severity: `block` or `warn`.
        num_rows: Offending rows.
        why: What the audit protects.
        rows: The first offending rows.
        sql: The query, to be run again by hand.
    """

    name: str
    severity: str
    num_rows: int
    why: str
    rows: tuple[dict[str, Any], ...]
    sql: str

    @property
    def is_blocking(self) -> bool:
        """Whether the audit must fail a run."""
        return self.num_rows > 0 and self.severity == "block"


@dataclass(frozen=True, slots=True)
class SqlObject:
    """One view, report or audit, as `grpo sql --list` shows it.

    Args:
        name: Its name.
        kind: `table`, `staging`, `run`, `mart`, `report` or `audit`.
        grain: What one row is.
        columns: (name, type, meaning) of each column; the type is empty for reports and audits.
        params: (name, type, meaning) of each parameter.
        why: What it is for.
    """

    name: str
    kind: str
    grain: str
    columns: tuple[tuple[str, str, str], ...]
    params: tuple[tuple[str, str, str], ...]
    why: str


class Warehouse:
    """The lake's views in an in-memory DuckDB; a context manager.

    Args:
        catalog: Complete artefacts and who used them.
        sql_directory: Where the queries are.
        threads: DuckDB threads; None lets DuckDB choose.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        sql_directory: Path = SQL_DIRECTORY,
        threads: int | None = None,
    ) -> None:
        self.queries = read_queries(sql_directory)
        self._views = order_views(self.queries)
        self._files = base_files(catalog)
        self._created: set[str] = set()
        self._connection = _connect(threads)
        create_catalog_tables(self._connection, catalog)
        _lock(self._connection, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def query(self, sql: str) -> QueryResult:
        """Run one SELECT written by a person.

        Raises:
            DataContractError: When it is anything else, or with DuckDB's message when it fails.
        """
        with _duckdb_errors():
            _check_read_only(self._connection, sql)
        words = set(_WORD.findall(sql.lower()))
        if words & _LOOKS_AT_ALL or any(word.startswith(_SYSTEM) for word in words):
            words |= self._everything()
        try:
            return self._execute(sql, words, {})
        except DataContractError as error:
            if not isinstance(error.__cause__, duckdb.CatalogException):
                raise
            return self._execute(sql, self._everything(), {})

    def run_report(self, name: str, params: Mapping[str, Any] | None = None) -> QueryResult:
        """Run a query of `sql/reports/`.

        Raises:
            DataContractError: When there is no such report or a parameter does not fit.
        """
        query = self._named(name, "report")
        return self._execute(query.sql, query.depends_on, query.bind(params or {}))

    def run_audits(
        self, params: Mapping[str, Any] | None = None, *, deep: bool = False
    ) -> list[AuditResult]:
        """Run every audit in order of name; `deep` adds those that read token lists.

        Args:
            params: Values for the audits' parameters; each audit takes those it declares.
            deep: Also run audits that unnest token lists.

        Raises:
            DataContractError: When no audit has one of the parameters, or an audit cannot run.
        """
        values = dict(params or {})
        audits = [query for query in self.queries.values() if query.kind == "audit"]
        known = {p.name for query in audits for p in query.params}
        if unknown := sorted(set(values) - known):
            raise DataContractError(
                f"no audit has a parameter {', '.join(unknown)}",
                hint=f"audits take {', '.join(sorted(known))}",
            )
        return [self._run_audit(query, values) for query in audits if deep or not query.is_deep]

    def list_objects(self) -> list[SqlObject]:
        """Return tables, views, reports and audits with grain, columns and parameters."""
        types = self._column_types()
        tables = [
            SqlObject(
                name=name,
                kind="table",
                grain=grain,
                columns=tuple((column, kind, "") for column, kind in types[name].items()),
                params=(),
                why="",
            )
            for name, grain in CATALOG_GRAINS.items()
        ]
        return tables + [_describe(query, types) for query in self.queries.values()]

    def _named(self, name: str, kind: str) -> Query:
        query = self.queries.get(name)
        if query is None or query.kind != kind:
            names = ", ".join(q.name for q in self.queries.values() if q.kind == kind)
            raise DataContractError(f"there is no {kind} {name!r}", hint=f"{kind}s: {names}")
        return query

    def _everything(self) -> set[str]:
        """Names of all views and base relations."""
        return {view.name for view in self._views} | self._files.keys()

    def _prepare(self, names: Iterable[str]) -> None:
        """Create the views that a query reads, and put files under their base relations."""
        needed = closure(names, self.queries) - self._created
        bases = sorted(needed & self._files.keys())
        views = [view for view in self._views if view.name in needed]
        create_views(self._connection, bases, views)
        attach_files(self._connection, {name: self._files[name] for name in bases})
        self._created |= {*bases, *(view.name for view in views)}

    def _execute(self, sql: str, names: Iterable[str], params: Mapping[str, Any]) -> QueryResult:
        """Run a query on a cursor of its own, after making what it reads."""
        with _duckdb_errors():
            self._prepare(names)
            cursor = self._connection.cursor()
            reader = cursor.sql(sql, params=dict(params)).to_arrow_reader(BATCH_ROWS)
        return QueryResult(reader.schema, reader)

    def _run_audit(self, query: Query, values: Mapping[str, Any]) -> AuditResult:
        own = {p.name: values[p.name] for p in query.params if p.name in values}
        try:
            result = self._execute(query.sql, query.depends_on, query.bind(own))
            num_rows, rows = _count_rows(result)
        except DataContractError as error:
            raise DataContractError(f"{query.name}: {error.message}", hint=error.hint) from error
        return AuditResult(query.name, query.severity, num_rows, query.why, rows, query.sql)

    def _column_types(self) -> dict[str, dict[str, str]]:
        self._prepare(self._everything())
        rows = self._connection.execute(
            "select table_name, column_name, data_type from duckdb_columns() order by column_index"
        ).fetchall()
        types: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            types.setdefault(table, {})[column] = kind
        return types


def audit_run(
    catalog: Catalog,
    run: str,
    params: Mapping[str, Any] | None = None,
    *,
    deep: bool = False,
    sql_directory: Path = SQL_DIRECTORY,
) -> list[AuditResult]:
    """Run the audits over the artefacts that the latest attempt of one run uses.

    Raises:
        DataContractError: When the catalog knows no such run, or an audit cannot run.
    """
    with Warehouse(restrict_to_run(catalog, run), sql_directory=sql_directory) as warehouse:
        return warehouse.run_audits(params, deep=deep)


def restrict_to_run(catalog: Catalog, run: str) -> Catalog:
    """Keep what the latest attempt of a run uses.

    Raises:
        DataContractError: When the catalog knows no such run.
    """
    nodes = [node for node in catalog.run_artifacts if node.run == run]
    if not nodes:
        known = ", ".join(sorted({node.run for node in catalog.run_artifacts})) or "none"
        raise DataContractError(f"no run is named {run!r}", hint=f"runs: {known}")
    attempt = max(node.attempt for node in nodes)
    nodes = [node for node in nodes if node.attempt == attempt]
    used = {(node.key, node.content) for node in nodes}
    return Catalog(
        entries=tuple(entry for entry in catalog.entries if (entry.key, entry.content) in used),
        damaged=tuple(entry for entry in catalog.damaged if entry.key in {k for k, _ in used}),
        run_artifacts=tuple(nodes),
        live_files=catalog.live_files,
    )


def write_lake_database(
    catalog: Catalog, path: Path, *, sql_directory: Path = SQL_DIRECTORY
) -> None:
    """Write `lake.duckdb`: the views for other DuckDB clients, in a file that 1.0 can open.

    The file is made beside `path` and renamed over it; a client that has the old one open keeps
    reading it. A write-ahead log that a client left behind belongs to the old file and goes.

    Raises:
        DataContractError: With DuckDB's message when the views cannot be made.
    """
    views = order_views(read_queries(sql_directory))
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        fresh = Path(scratch) / path.name
        with contextlib.closing(_connect(None)) as connection, _duckdb_errors():
            connection.execute(
                f"attach {quote(str(fresh))} as lake (storage_version '{STORAGE_VERSION}')"
            )
            connection.execute("use lake")
            files = base_files(catalog)
            create_catalog_tables(connection, catalog)
            create_views(connection, files, views)
            attach_files(connection, files)
            comment_grains(connection, views)
            connection.execute("use memory")
            connection.execute("detach lake")
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
        os.replace(fresh, path)


@contextlib.contextmanager
def _duckdb_errors() -> Iterator[None]:
    """Turn DuckDB's errors into the product's, message unchanged."""
    try:
        yield
    except duckdb.Error as error:
        raise DataContractError(str(error).strip()) from error


def _connect(threads: int | None) -> Any:
    """An in-memory database that loads no extension and sees no Python variable."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "temp_directory": os.path.join(tempfile.gettempdir(), f"grpo-sql-{os.getpid()}"),
    }
    if threads is not None:
        config["threads"] = threads
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("set timezone = 'UTC'")
    return connection


def _lock(connection: Any, files: Mapping[str, Sequence[str]]) -> None:
    """Allow the lake's Parquet files, no other file, no network and no change of settings."""
    paths = ", ".join(quote(path) for paths in files.values() for path in paths)
    connection.execute(f"set allowed_paths = [{paths}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _check_read_only(connection: Any, sql: str) -> None:
    """Refuse all but one SELECT, also writes inside its CTEs (`with x as (copy …)`)."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise DataContractError(f"got {len(statements)} statements", hint=_READ_ONLY_HINT)
    if statements[0].type != duckdb.StatementType.SELECT:
        raise DataContractError(
            f"{statements[0].type.name} is not a read-only query", hint=_READ_ONLY_HINT
        )
    text = statements[0].query
    tree = connection.execute("select json_serialize_sql($sql)", {"sql": text}).fetchone()[0]
    writes = sorted({node for node in _node_types(json.loads(tree)) if "_QUERY_" in node})
    if writes:
        verb = writes[0].partition("_")[0]
        raise DataContractError(f"{verb} is not a read-only query", hint=_READ_ONLY_HINT)


def _node_types(tree: Any) -> Iterator[str]:
    """Yield the type of every node of a serialised statement."""
    if isinstance(tree, dict):
        if isinstance(tree.get("type"), str):
            yield tree["type"]
        for value in tree.values():
            yield from _node_types(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _node_types(value)


def _count_rows(result: QueryResult) -> tuple[int, tuple[dict[str, Any], ...]]:
    """Count all rows and keep the first."""
    num_rows = 0
    rows: list[dict[str, Any]] = []
    for batch in result.batches():
        rows += batch.slice(0, max(0, AUDIT_ROWS - len(rows))).to_pylist()
        num_rows += batch.num_rows
    return num_rows, tuple(rows)


def _describe(query: Query, types: Mapping[str, Mapping[str, str]]) -> SqlObject:
    """A listing entry; types come from the bound view, meanings from the header."""
    bound = types.get(query.name) or dict.fromkeys(query.columns, "")
    return SqlObject(
        name=query.name,
        kind=query.kind,
        grain=query.grain,
        columns=tuple((c, kind, query.columns.get(c, "")) for c, kind in bound.items()),
        params=tuple((p.name, p.type, p.meaning) for p in query.params),
        why=query.why,
    )
