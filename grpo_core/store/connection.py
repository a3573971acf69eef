"""DuckDB connections that can not leave the lake: no extension, no network, no write."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from grpo_core.errors import DataContractError
from grpo_core.store.relations import quote

_READ_ONLY_HINT = "one SELECT (also FROM, WITH, DESCRIBE, SHOW, SUMMARIZE) at a time, nothing else"


@contextlib.contextmanager
def duckdb_errors() -> Iterator[None]:
    """Turn the database's errors into the product's, message unchanged."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        message = str(error).strip()
        raise DataContractError(message, hint=_hint(error, message)) from error


def _hint(error: Exception, message: str) -> str:
    if isinstance(error, duckdb.CatalogException):
        return "grpo sql --list names tables and views, grpo sql --list NAME their columns"
    if isinstance(error, duckdb.PermissionException):
        return (
            "a query reads the tables and views of a lake and no other file: grpo sql --list names "
            "them, --lake DIR takes another lake"
        )
    if ".parquet" in message:
        return "grpo lake verify names every damaged file and what heals it"
    return ""


def connect(threads: int | None, memory_bytes: int | None = None) -> Any:
    """An in-memory database that loads no extension and sees no Python variable.

    Args:
        threads: DuckDB threads; None lets DuckDB choose.
        memory_bytes: Memory from which on rows go to temporary files; None: 80% of the machine's.
    """
    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "temp_directory": os.path.join(tempfile.gettempdir(), f"grpo-sql-{os.getpid()}"),
    }
    if threads is not None:
        config["threads"] = threads
    if memory_bytes is not None:
        config["memory_limit"] = f"{memory_bytes}B"
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("set timezone = 'UTC'")
    return connection


def lock(connection: Any, files: Mapping[str, Sequence[str]]) -> None:
    """Allow the lake's Parquet files, no other file, no network and no change of settings."""
    paths = ", ".join(quote(path) for paths in files.values() for path in paths)
    connection.execute(f"set allowed_paths = [{paths}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def check_read_only(connection: Any, sql: str) -> None:
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
