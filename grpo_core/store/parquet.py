"""Parquet parts as the lake writes them: zstd, byte-stream-split log-probs, a telling footer.

The footer carries key, table, part number, rows and schema version, so that a part that was
swapped with another one is noticed when it is opened.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from grpo_core.errors import ArtifactError
from grpo_core.store.files import write_atomically
from grpo_core.store.reading import RECOMPUTED, reading
from grpo_core.store.schemas import SCHEMA_VERSION, TableSpec

ROWS_PER_PART = 250_000


def write_part(path: Path, table: pa.Table, spec: TableSpec, *, key: str, part: int) -> None:
    """Write one part atomically, fsynced."""
    footer = {
        "grpo.key": key,
        "grpo.table": spec.name,
        "grpo.part": str(part),
        "grpo.rows": str(table.num_rows),
        "grpo.schema_version": str(SCHEMA_VERSION),
    }
    stamped = table.replace_schema_metadata(footer)
    logprob_columns = [name for name in spec.schema.names if name.endswith("_logprobs")]
    plain_columns = [name for name in spec.schema.names if name not in logprob_columns]

    def write(temporary: Path) -> None:
        pq.write_table(
            stamped,
            temporary,
            compression="zstd",
            compression_level=1,
            use_dictionary=plain_columns,
            column_encoding={f"{n}.list.element": "BYTE_STREAM_SPLIT" for n in logprob_columns},
            write_page_checksum=True,
        )

    write_atomically(path, write)


def split_parts(table: pa.Table) -> Iterator[pa.Table]:
    """Slices of at most ROWS_PER_PART rows; one empty slice for an empty table."""
    for start in range(0, max(table.num_rows, 1), ROWS_PER_PART):
        yield table.slice(start, ROWS_PER_PART)


def read_parts(
    paths: Sequence[Path],
    spec: TableSpec,
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read parts in order; checks page checksums and, with `key`, each footer.

    Args:
        paths: Parts in order.
        spec: Their table.
        key: Key that the footers must carry; None skips the check (unit files).
        columns: Columns to read; None reads all.

    Raises:
        ArtifactError: A part is missing or damaged, or not the part that it should be.
        FileUnreadableError: The system does not let one be read.
    """
    tables = [
        _read_part(path, spec, key=key, part=part, columns=columns)
        for part, path in enumerate(paths)
    ]
    names = list(columns) if columns is not None else spec.schema.names
    schema = pa.schema([spec.schema.field(name) for name in names])
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables).replace_schema_metadata(None).select(names).cast(schema)


def _read_part(
    path: Path, spec: TableSpec, *, key: str | None, part: int, columns: Sequence[str] | None
) -> pa.Table:
    try:
        with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_footer(path, file.metadata.metadata or {}, spec, key=key, part=part)
            wanted = list(columns) if columns is not None else spec.schema.names
            there = [name for name in wanted if name in file.schema_arrow.names]
            return _with_later_columns(path, file.read(columns=there), wanted, spec)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing", hint=RECOMPUTED) from error


def _with_later_columns(
    path: Path, table: pa.Table, wanted: Sequence[str], spec: TableSpec
) -> pa.Table:
    """Null in columns that a later schema added; one that has no null needs the row made again."""
    for name in wanted:
        if name in table.column_names:
            continue
        field = spec.schema.field(name)
        if not field.nullable:
            raise ArtifactError(
                f"{path} was written before {spec.name} had the column {name}, which holds no null",
                hint="run its stage with --force: artefacts are never migrated silently",
            )
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def _check_footer(
    path: Path, footer: dict[bytes, bytes], spec: TableSpec, *, key: str | None, part: int
) -> None:
    expected: dict[str, Any] = {"grpo.table": spec.name}
    if key is not None:
        expected |= {"grpo.key": key, "grpo.part": str(part)}
    version = int(footer.get(b"grpo.schema_version", b"0"))
    if version > SCHEMA_VERSION:
        raise ArtifactError(
            f"{path} has schema version {version}, this release reads up to {SCHEMA_VERSION}",
            hint="use the release that wrote it, or a later one",
        )
    for name, value in expected.items():
        got = footer.get(name.encode(), b"").decode()
        if got != value:
            raise ArtifactError(
                f"{path} says {name} = {got!r}, expected {value!r}: it is another file's copy",
                hint=RECOMPUTED,
            )
