"""What comes out of the warehouse: rows that stream, findings of audits, a listing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from grpo_core.store.connection import duckdb_errors
from grpo_core.store.query_thread import QueryThread


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows that stream from the database; may be read once.

    Args:
        schema: Arrow schema of the columns.
        reader: Record batches, in order.
        connection: The database that makes them.
    """

    schema: pa.Schema
    reader: pa.RecordBatchReader
    connection: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names; where a query names two alike, the second is `name_1`."""
        names: dict[str, None] = {}
        for name in self.schema.names:
            numbered = (f"{name}_{n}" if n else name for n in range(len(names) + 1))
            names[next(candidate for candidate in numbered if candidate not in names)] = None
        return tuple(names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow record batches.

        Raises:
            DataContractError: When the database fails in the middle, with its own message.
        """
        with QueryThread(self.connection) as thread:
            while (batch := thread.run(self._next)) is not None:
                yield batch

    def _next(self) -> pa.RecordBatch | None:
        with duckdb_errors():
            return next(self.reader, None)

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
        kind: `table`, `staging`, `run`, `mart`, `report`, `audit` or `regrade`.
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
