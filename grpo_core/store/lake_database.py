"""`lake.duckdb`: the views of `sql/` for other DuckDB clients; disposable."""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_core.store.catalog import Catalog
from grpo_core.store.connection import connect, duckdb_errors
from grpo_core.store.queries import SQL_DIRECTORY, Query, order_views, read_queries
from grpo_core.store.query_thread import QueryThread
from grpo_core.store.relations import (
    attach_files,
    base_files,
    comment_grains,
    create_catalog_tables,
    create_views,
    quote,
)

STORAGE_VERSION = "v1.0.0"
"""Oldest DuckDB that can open the file."""


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
        with (
            contextlib.closing(connect(None)) as connection,
            duckdb_errors(),
            QueryThread(connection) as thread,
        ):
            thread.run(lambda: _fill(connection, fresh, catalog, views))
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
        os.replace(fresh, path)


def _fill(connection: Any, path: Path, catalog: Catalog, views: Sequence[Query]) -> None:
    """Make the file and what is in it."""
    connection.execute(f"attach {quote(str(path))} as lake (storage_version '{STORAGE_VERSION}')")
    connection.execute("use lake")
    files = base_files(catalog)
    create_catalog_tables(connection, catalog)
    create_views(connection, files, views)
    attach_files(connection, files)
    comment_grains(connection, views)
    connection.execute("use memory")
    connection.execute("detach lake")
