"""Query results as table, CSV, JSON or Parquet; nulls, NaN and lists survive in each.

| value | table | csv | json | parquet |
|---|---|---|---|---|
| null | `-` | empty field | null | null |
| empty text | empty | `""` | "" | empty |
| NaN, infinity | `NaN`, `inf` | `NaN`, `Infinity` | "NaN", "Infinity": texts | as is |
| list, struct | shortened | JSON text | array, object | as is |
| time | ISO-8601 | ISO-8601 | ISO-8601 | as is |
"""

import base64
import datetime
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grpo_core.errors import DataContractError
from grpo_core.store.results import QueryResult

Format = Literal["table", "csv", "json", "parquet"]
FORMATS: tuple[Format, ...] = ("table", "csv", "json", "parquet")
LIST_ITEMS = 6
CELL_CHARACTERS = 200
TABLE_ROWS = 1000
_CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
"""Control characters as pictures, so that a model's text can not steer the terminal."""


def format_result(
    result: QueryResult, output_format: Format, target: IO[str] | Path, *, width: int | None = None
) -> int:
    """Write a result; returns the number of rows.

    Args:
        result: Read to its end, except for a table, which stops at 1,000 rows and says so.
        output_format: `table`, `csv`, `json` or `parquet`.
        target: A text stream, or the path of a file; Parquet goes to a file or a pipe.
        width: Columns of the terminal for `table`; None asks the terminal.

    Raises:
        DataContractError: When the format is unknown, Parquet would go to a terminal, or the query
            fails while it is read.
    """
    if output_format not in FORMATS:
        raise DataContractError(
            f"unknown format {output_format!r}", hint=f"formats: {', '.join(FORMATS)}"
        )
    if output_format == "parquet":
        return write_parquet(result, target if isinstance(target, Path) else _binary(target))
    if isinstance(target, Path):
        with target.open("w", encoding="utf-8", newline="") as stream:
            return format_result(result, output_format, stream, width=width)
    if output_format == "csv":
        return write_csv(result, target)
    if output_format == "json":
        return write_json(result, target)
    return write_table(result, target, width=width)


def write_csv(result: QueryResult, stream: IO[str]) -> int:
    """Write RFC 4180 CSV with a header; an empty field is null, `""` is empty text."""
    stream.write(",".join(_csv_field(name) for name in result.columns) + "\n")
    num_rows = 0
    for row in result.rows():
        stream.write(",".join(_csv_field(value) for value in row) + "\n")
        num_rows += 1
    return num_rows


def write_json(result: QueryResult, stream: IO[str]) -> int:
    """Write one array of objects, an object a line."""
    num_rows = 0
    stream.write("[")
    for row in result.rows():
        record = {name: plain(value) for name, value in zip(result.columns, row, strict=True)}
        stream.write(",\n" if num_rows else "\n")
        stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False))
        num_rows += 1
    stream.write("\n]\n" if num_rows else "]\n")
    return num_rows


def write_parquet(result: QueryResult, target: Path | IO[bytes]) -> int:
    """Write a Parquet file with the types of the query."""
    num_rows, names = 0, list(result.columns)
    schema = pa.schema([f.with_name(n) for f, n in zip(result.schema, names, strict=True)])
    try:
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in result.batches():
                writer.write_batch(batch.rename_columns(names))
                num_rows += batch.num_rows
    except pa.ArrowNotImplementedError as error:
        raise DataContractError(
            f"Parquet: {error}", hint="cast the column, for example to varchar"
        ) from error
    return num_rows


def write_table(result: QueryResult, stream: IO[str], *, width: int | None = None) -> int:
    """Write a table for people: long lists and texts are shortened."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, kind in zip(result.columns, result.schema.types, strict=True):
        is_number = str(kind).startswith(("int", "uint", "float", "double", "decimal"))
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    num_rows, is_cut = 0, False
    for row in result.rows():
        if num_rows == TABLE_ROWS:
            is_cut = True
            break
        table.add_row(*(Text(cell(value)) for value in row))
        num_rows += 1
    console = Console(file=stream, width=width)
    console.print(table)
    if is_cut:
        console.print(Text(f"first {TABLE_ROWS} rows; --format csv, json or parquet has all"))
    return num_rows


def cell(value: Any) -> str:
    """A value as the text of a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return _short_list(value)
    if isinstance(value, dict):
        return shorten("{" + ", ".join(f"{k}: {cell(v)}" for k, v in value.items()) + "}")
    return shorten(str(plain(value)).translate(_CONTROLS))


def plain(value: Any) -> Any:
    """A value that JSON can hold and that nothing is lost in."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def shorten(text: str, limit: int = CELL_CHARACTERS) -> str:
    """A text of at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _binary(stream: IO[str]) -> IO[bytes]:
    """The bytes under a text stream that is a file or a pipe."""
    binary: IO[bytes] | None = getattr(stream, "buffer", None)
    if binary is None or stream.isatty():
        raise DataContractError(
            "Parquet can not be written to a terminal", hint="name a file or redirect the output"
        )
    return binary


def _number(value: float) -> str:
    """A float with six significant digits; NaN and infinity by name."""
    return "NaN" if math.isnan(value) else f"{value:.6g}"


def _short_list(values: list[Any] | tuple[Any, ...]) -> str:
    shown = ", ".join(cell(value) for value in values[:LIST_ITEMS])
    return f"[{shown}, … {len(values)} in all]" if len(values) > LIST_ITEMS else f"[{shown}]"


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    value = plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text == "" or any(char in text for char in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text
