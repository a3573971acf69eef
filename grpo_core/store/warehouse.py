"""The lake as SQL: views in memory over complete artefacts, read-only queries, reports, audits.

A `Warehouse` makes only the views that a query reads. Queries from people run one SELECT each, with
DuckDB's configuration locked, no network and no file but the lake's Parquet, so that nothing can be
written.
"""

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import duckdb
import pyarrow as pa

from grpo_core.errors import DataContractError
from grpo_core.store.catalog import Catalog
from grpo_core.store.connection import check_read_only, connect, duckdb_errors, lock
from grpo_core.store.queries import SQL_DIRECTORY, Query, closure, order_views, read_queries
from grpo_core.store.query_thread import QueryThread
from grpo_core.store.relations import (
    CATALOG_GRAINS,
    attach_files,
    base_files,
    create_catalog_tables,
    create_regraded_tables,
    create_views,
)
from grpo_core.store.results import AuditResult, QueryResult, SqlObject

BATCH_ROWS = 2048
AUDIT_ROWS = 20
_WORD = re.compile(r"\w+")
_LOOKS_AT_ALL = {"show", "query", "query_table", "information_schema", "sqlite_master"}
_SYSTEM = ("duckdb_", "pg_", "pragma_")
"""Words of queries that see views which they do not name."""


class Warehouse:
    """The lake's views in an in-memory DuckDB; a context manager.

    Args:
        catalog: Complete artefacts and who used them.
        sql_directory: Where the queries are.
        threads: DuckDB threads; None lets DuckDB choose.
        memory_bytes: Memory of DuckDB; beyond it rows go to temporary files. None lets it choose.
        regraded: Rows for the queries of `sql/regrade`, see `relations.REGRADED_TABLES`.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        sql_directory: Path = SQL_DIRECTORY,
        threads: int | None = None,
        memory_bytes: int | None = None,
        regraded: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> None:
        self.queries = read_queries(sql_directory)
        self._views = order_views(self.queries)
        self._files = base_files(catalog)
        self._created: set[str] = set()
        self._connection = connect(threads, memory_bytes)
        create_catalog_tables(self._connection, catalog)
        create_regraded_tables(self._connection, regraded)
        lock(self._connection, self._files)

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
        with duckdb_errors():
            check_read_only(self._connection, sql)
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
        return self._run_named("report", name, params or {})

    def run_regrade(self, name: str, params: Mapping[str, Any] | None = None) -> QueryResult:
        """Run a query of `sql/regrade/`.

        Raises:
            DataContractError: As `run_report`.
        """
        return self._run_named("regrade", name, params or {})

    def _run_named(self, kind: str, name: str, params: Mapping[str, Any]) -> QueryResult:
        query = self._named(name, kind)
        return self._execute(query.sql, query.depends_on, query.bind(params))

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
        with duckdb_errors():
            with QueryThread(self._connection) as thread:
                thread.run(lambda: self._prepare(names))
            cursor = self._connection.cursor()
            with QueryThread(cursor) as thread:
                reader = thread.run(
                    lambda: cursor.sql(sql, params=dict(params)).to_arrow_reader(BATCH_ROWS)
                )
        return QueryResult(reader.schema, reader, cursor)

    def _run_audit(self, query: Query, values: Mapping[str, Any]) -> AuditResult:
        own = {p.name: values[p.name] for p in query.params if p.name in values}
        try:
            result = self._execute(query.sql, query.depends_on, query.bind(own))
            num_rows, rows = _count_rows(result)
        except DataContractError as error:
            raise DataContractError(f"{query.name}: {error.message}", hint=error.hint) from error
        return AuditResult(query.name, query.severity, num_rows, query.why, rows, query.sql)

    def _column_types(self) -> dict[str, dict[str, str]]:
        """Columns of every table and view, which no file decides and none is opened for."""
        with contextlib.closing(connect(1)) as connection, duckdb_errors():
            create_catalog_tables(connection, Catalog((), (), (), {}))
            create_regraded_tables(connection, {})
            create_views(connection, self._files, self._views)
            rows = connection.execute(
                "select table_name, column_name, data_type from duckdb_columns() "
                "order by column_index"
            ).fetchall()
        types: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            types.setdefault(table, {})[column] = kind
        return types


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
