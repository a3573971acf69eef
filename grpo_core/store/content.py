"""Content digests of tables: equal rows give equal digests, however they were written.

A digest covers the declared columns in declared order, the rows in declared sort order, and of each
column its validity, lengths and values. It does not depend on row groups, compression, Arrow's
memory layout or library versions.
"""

import hashlib
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.errors import DataContractError
from grpo_core.store.schemas import TableSpec


class Hasher(Protocol):
    """What hashlib's hash objects have in common."""

    def update(self, data: bytes, /) -> None:
        """Feed bytes."""


def conform(table: pa.Table, spec: TableSpec) -> pa.Table:
    """The table with the declared columns, types and sort; refuses what does not fit.

    Raises:
        DataContractError: Missing or unknown columns, a type that cannot be cast safely, or a
            null where the schema has none.
    """
    expected, got = set(spec.schema.names), set(table.column_names)
    if expected != got:
        raise DataContractError(
            f"table {spec.name}: missing columns {sorted(expected - got)}, "
            f"unknown columns {sorted(got - expected)}"
        )
    ordered = table.select(spec.schema.names)
    for field in spec.schema:
        if not field.nullable and ordered.column(field.name).null_count:
            raise DataContractError(
                f"table {spec.name}: column {field.name} holds "
                f"{ordered.column(field.name).null_count} nulls, none are allowed"
            )
    try:
        cast = ordered.cast(spec.schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataContractError(f"table {spec.name}: {error}") from error
    return cast.sort_by([(name, "ascending") for name in spec.sort])


def table_digest(table: pa.Table, spec: TableSpec) -> str:
    """sha256 over the conformed table, 64 hex digits."""
    hasher = hashlib.sha256(f"{spec.name}:{table.num_rows}".encode())
    for field in (f for f in spec.schema if f.name not in spec.undigested):
        hasher.update(f"|{field.name}:{field.type}".encode())
        _hash_array(hasher, table.column(field.name).combine_chunks())
    return hasher.hexdigest()


def _hash_array(hasher: Hasher, array: pa.Array) -> None:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    hasher.update(_bytes(array.is_valid(), np.uint8))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        hasher.update(_bytes(pc.fill_null(pc.list_value_length(array), 0), np.int64))
        _hash_array(hasher, array.flatten())
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        encoded = array.cast(pa.large_binary()).fill_null(b"")
        hasher.update(_bytes(pc.binary_length(encoded), np.int64))
        hasher.update(b"".join(encoded.to_pylist()))
    elif pa.types.is_boolean(array.type):
        hasher.update(_bytes(array.fill_null(False), np.uint8))
    elif pa.types.is_timestamp(array.type):
        hasher.update(_bytes(array.cast(pa.int64()).fill_null(0), np.int64))
    else:
        hasher.update(_bytes(array.fill_null(0), array.type.to_pandas_dtype()))


def _bytes(array: pa.Array, dtype: type) -> bytes:
    values = array.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values.astype(dtype, copy=False)).tobytes()
