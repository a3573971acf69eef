"""Grade a JSONL file: rows {id, completion, gold[, answer_type]} to rows with verdicts."""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from grpo_core.errors import DataContractError
from grpo_core.rewards.gold import ANSWER_TYPES
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.pool import VerifierPool
from grpo_core.rewards.verdict import Label, Verdict

_CHUNK_ROWS: Final = 4096
_HINT: Final = (
    'one JSON object a line: {"id": "7", "completion": "... #### 42", "gold": "42"}, '
    "answer_type optional"
)
Row = dict[str, Any]


def grade_file(
    in_path: str | Path,
    out_path: str | Path,
    options: VerifierOptions | None = None,
    workers: int | None = None,
) -> Counter[Label]:
    """Grade every row of a JSONL file and return how many rows got which label.

    The output appears whole or not at all: it is written beside its place and renamed.

    Args:
        in_path: Rows {id, completion, gold[, answer_type]}; other fields are ignored.
        out_path: Rows {id, label, reward_raw, extracted, candidates, reason}, same order.
        options: The grader's choices; None means defaults.
        workers: Most worker processes; None means one per core.

    Raises:
        DataContractError: When a file cannot be opened or a row breaks the contract; it names
            file, line, field, what was expected and what came.
    """
    source, target = Path(in_path), Path(out_path)
    counts: Counter[Label] = Counter()
    if not target.parent.is_dir():
        raise DataContractError(f"{target}: its directory does not exist", "make it first")
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with (
            os.fdopen(descriptor, "w", encoding="utf-8") as out,
            VerifierPool(workers, options=options) as pool,
        ):
            _grade_rows(_rows(source), pool, out, counts)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return counts


def _grade_rows(
    rows: Iterator[Row], pool: VerifierPool, out: IO[str], counts: Counter[Label]
) -> None:
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        batch = [(row["completion"], row["gold"], row.get("answer_type")) for row in chunk]
        for row, verdict in zip(chunk, pool.grade_batch(batch), strict=True):
            counts[verdict.label] += 1
            out.write(json.dumps(_graded(row, verdict), ensure_ascii=False) + "\n")


def _graded(row: Row, verdict: Verdict) -> Row:
    return {
        "id": row["id"],
        "label": verdict.label.value,
        "reward_raw": verdict.reward_raw,
        "extracted": verdict.extracted,
        "candidates": list(verdict.candidates),
        "reason": verdict.reason,
    }


def _rows(source: Path) -> Iterator[Row]:
    try:
        stream = source.open("rb")
    except OSError as error:
        raise DataContractError(f"{source}: cannot be opened ({error.strerror})", _HINT) from error
    with stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield _row(source, number, line.removeprefix(b"\xef\xbb\xbf"))


def _row(source: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataContractError(
            f"{source}, line {number}: expected a JSON object in UTF-8, got {error}", _HINT
        ) from error
    if not isinstance(row, dict):
        raise _broken(source, number, "the row", "a JSON object", row)
    for name in ("completion", "gold"):
        if not isinstance(row.get(name), str):
            raise _broken(source, number, f"field {name!r}", "a string", row.get(name))
    if not isinstance(row.get("id"), str | int) or isinstance(row["id"], bool):
        raise _broken(source, number, "field 'id'", "a string or an integer", row.get("id"))
    kind = row.get("answer_type")
    if kind is not None and kind not in ANSWER_TYPES:
        wanted = f"one of {', '.join(ANSWER_TYPES)} or null"
        raise _broken(source, number, "field 'answer_type'", wanted, kind)
    return row


def _broken(source: Path, number: int, field: str, expected: str, got: object) -> DataContractError:
    shown = "nothing" if got is None else f"{type(got).__name__} {str(got)[:80]!r}"
    return DataContractError(
        f"{source}, line {number}, {field}: expected {expected}, got {shown}", _HINT
    )
