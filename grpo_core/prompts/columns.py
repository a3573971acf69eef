"""Rows to Arrow tables of the declared schemas, and checks of tables that come in."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from grpo_core.errors import DataContractError
from grpo_core.store.schemas import TableSpec


def to_table(rows: Sequence[Mapping[str, Any]], spec: TableSpec) -> pa.Table:
    """Return the rows as a table of exactly `spec.schema`, sorted by `spec.sort`.

    Raises:
        KeyError: A row lacks a column.
    """
    columns = [
        pa.array([row[field.name] for row in rows], type=field.type) for field in spec.schema
    ]
    table = pa.table(columns, schema=spec.schema)
    return table.sort_by([(name, "ascending") for name in spec.sort])


def require_columns(table: pa.Table, name: str, columns: Sequence[str]) -> None:
    """Raise DataContractError when `table` lacks one of `columns`."""
    missing = sorted(set(columns) - set(table.column_names))
    if missing:
        raise DataContractError(
            f"{name}: expected columns {list(columns)}, missing {missing}, got {table.column_names}"
        )
