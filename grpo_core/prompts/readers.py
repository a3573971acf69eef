"""Rows of a problem file, each with its number and either its fields or what is wrong with it.

Rows are numbered from 1: lines of a JSON lines file (blank lines count, so that an editor finds
them, but are no rows), rows of the Parquet or Arrow files of a member in reading order.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from grpo_core.errors import DataContractError
from grpo_core.prompts.sources import Format, Member

_BATCH_ROWS = 8192
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Absent(Enum):
    """The value of a field that a row does not have."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Defect(StrEnum):
    """Why a row is in quarantine; the first word of its `quarantine_reason`."""

    UNDECODABLE = "undecodable"
    BROKEN_JSON = "broken_json"
    NOT_OBJECT = "not_object"
    MISSING_PROBLEM = "missing_problem"
    MISSING_GOLD = "missing_gold"
    WRONG_TYPE = "wrong_type"
    EMPTY_PROBLEM = "empty_problem"
    EMPTY_GOLD = "empty_gold"
    OVER_LONG = "over_long"
    MISSING_MARKER = "missing_marker"
    REFUSED_GOLD = "refused_gold"
    UNKNOWN_VERIFIER = "unknown_verifier"
    REFUSED_TESTS = "refused_tests"
    CONTRADICTORY_GOLD = "contradictory_gold"
    HELD_OUT = "held_out"

    def because(self, detail: str) -> str:
        """The reason as it is stored."""
        return f"{self.value}: {detail}"


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as it stands in the file.

    Args:
        number: From 1.
        fields: Value of each wanted field that the row has.
        reason: Why it cannot be read at all; empty when it can.
    """

    number: int
    fields: dict[str, object] = field(default_factory=dict)
    reason: str = ""

    def get(self, name: str) -> object:
        """The value of a field, `ABSENT` when the row lacks it."""
        return self.fields.get(name, ABSENT)


def read_rows(
    member: Member, wanted: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[RawRow]:
    """Yield every row of a member, in order.

    Args:
        member: What to read.
        wanted: Names of the fields to read; each must be there in some row.
        optional: Names of further fields, read where they are there.

    Raises:
        DataContractError: A file is not of its format, or no row of the member has a wanted field.
    """
    if member.format is Format.JSONL:
        yield from _read_json_lines(member.files[0], wanted, optional)
        return
    number = 0
    for path in member.files:
        for batch in _read_batches(path, member.format, wanted, optional):
            columns = {name: _decode_column(batch.column(name)) for name in batch.schema.names}
            for index in range(batch.num_rows):
                number += 1
                yield _arrow_row(number, {name: values[index] for name, values in columns.items()})


def _read_json_lines(
    path: Path, wanted: Sequence[str], optional: Sequence[str]
) -> Iterator[RawRow]:
    names = (*wanted, *optional)
    seen: set[str] = set()
    num_objects = 0
    starts_array = False
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
                _refuse_binary_formats(path, line)
                starts_array = line.lstrip().startswith(b"[")
            if not line.strip():
                continue
            parsed = _parse_line(line)
            if isinstance(parsed, str):
                yield RawRow(number, reason=parsed)
                continue
            num_objects += 1
            if num_objects <= 1000:
                seen.update(parsed)
            yield RawRow(number, {name: parsed[name] for name in names if name in parsed})
    if num_objects:
        _require_fields(path, wanted, seen)
    elif starts_array:
        raise DataContractError(
            f"{path}: expected JSON lines, got a JSON array", "write one JSON object a line"
        )


def _refuse_binary_formats(path: Path, first_line: bytes) -> None:
    if first_line.startswith(b"PAR1"):
        got, hint = "a Parquet file", "name it .parquet"
    elif first_line.startswith(b"\x1f\x8b"):
        got, hint = "a gzip file", "decompress it"
    else:
        return
    raise DataContractError(f"{path}: expected JSON lines, got {got}", hint)


def _parse_line(line: bytes) -> dict[str, object] | str:
    """The object of one line, or the reason why there is none."""
    try:
        text = line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        return Defect.UNDECODABLE.because(f"byte {error.start + 1} is not UTF-8 ({error.reason})")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return Defect.BROKEN_JSON.because(f"{error.msg} at character {error.pos + 1}")
    except (ValueError, RecursionError) as error:
        return Defect.BROKEN_JSON.because(str(error))
    if not isinstance(value, dict):
        return Defect.NOT_OBJECT.because(f"expected an object, got {type(value).__name__}")
    return value


def _require_fields(path: Path, wanted: Sequence[str], seen: set[str]) -> None:
    for name in wanted:
        if name not in seen:
            raise DataContractError(
                f"{path}: expected a field {name!r} in its rows, got {sorted(seen)}",
                "name the fields with prompts.problem_field, prompts.answer_field and "
                "prompts.answer_type_field",
            )


def _read_batches(
    path: Path, kind: Format, wanted: Sequence[str], optional: Sequence[str]
) -> Iterator[Any]:
    try:
        if kind is Format.PARQUET:
            with pq.ParquetFile(path) as file:
                there = set(file.schema_arrow.names)
                _require_fields(path, wanted, there)
                names = [*wanted, *(name for name in optional if name in there)]
                yield from file.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(names)))
        else:
            with pa.memory_map(str(path)) as source:
                yield from _ipc_batches(source, path, wanted, optional)
    except pa.ArrowException as error:
        raise DataContractError(
            f"{path}: expected a readable {kind.value} file, got: {error}",
            "the file is damaged or of another format",
        ) from error


def _ipc_batches(
    source: Any, path: Path, wanted: Sequence[str], optional: Sequence[str]
) -> Iterator[Any]:
    """Batches of an Arrow file in stream format (datasets writes it) or in file format."""
    magic = source.read(6)
    source.seek(0)
    is_file = magic == b"ARROW1"
    reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
    there = set(reader.schema.names)
    _require_fields(path, wanted, there)
    names = list(dict.fromkeys([*wanted, *(name for name in optional if name in there)]))
    if is_file:
        batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
    else:
        batches = iter(reader)
    for batch in batches:
        yield batch.select(names)


@dataclass(frozen=True, slots=True)
class _Undecodable:
    detail: str


def _decode_column(column: Any) -> list[object]:
    """Python values; text is decoded row by row, because Arrow does not promise valid UTF-8."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return list(column.to_pylist())
    return [_decode(value) for value in column.cast(pa.large_binary()).to_pylist()]


def _decode(value: bytes | None) -> object:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError as error:
        return _Undecodable(f"byte {error.start + 1} is not UTF-8 ({error.reason})")


def _arrow_row(number: int, fields: dict[str, object]) -> RawRow:
    for name, value in fields.items():
        if isinstance(value, _Undecodable):
            reason = Defect.UNDECODABLE.because(f"field {name!r}: {value.detail}")
            return RawRow(number, reason=reason)
    return RawRow(number, fields)
