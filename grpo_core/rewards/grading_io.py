"""Grade a JSONL file: rows {id, completion, gold, …} to rows with verdicts."""

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
from grpo_core.rewards.grader import Grader, GraderRules
from grpo_core.rewards.verdict import Label, Verdict
from grpo_core.rewards.verifier_names import MATH

_CHUNK_ROWS: Final = 4096
_HINT: Final = (
    'one JSON object a line: {"id": "7", "completion": "... #### 42", "gold": "42"}, '
    "answer_type optional"
)
Row = dict[str, Any]


def grade_file(
    in_path: str | Path, out_path: str | Path, rules: GraderRules | None = None
) -> Counter[Label]:
    """Grade every row of a JSONL file and return how many rows got which label.

    The output appears whole or not at all: it is written beside its place and renamed.

    Args:
        in_path: Rows {id, completion, gold}; `answer_type`, `verifier` and `tests` are read where
            they are there, and reward functions are given every field.
        out_path: Rows {id, label, reward_raw, extracted, reason}, same order, with `confidence` and
            `share_passed` where there are any.
        rules: Who grades and how; None means `math` with its defaults.

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
            Grader(rules) as grader,
        ):
            _grade_rows(_rows(source, grader.rules), grader, out, counts)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return counts


def _grade_rows(rows: Iterator[Row], grader: Grader, out: IO[str], counts: Counter[Label]) -> None:
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        verdicts = grader.grade([row["completion"] for row in chunk], chunk)
        for row, verdict in zip(chunk, verdicts, strict=True):
            counts[verdict.label] += 1
            out.write(json.dumps(_graded(row, verdict), ensure_ascii=False) + "\n")


def _graded(row: Row, verdict: Verdict) -> Row:
    further = {"confidence": verdict.confidence, "share_passed": verdict.share_passed}
    return {
        "id": row["id"],
        "label": verdict.label.value,
        "reward_raw": verdict.reward_raw,
        "extracted": verdict.extracted,
        "reason": verdict.reason,
        **{name: value for name, value in further.items() if value is not None},
    }


def _rows(source: Path, rules: GraderRules) -> Iterator[Row]:
    try:
        stream = source.open("rb")
    except OSError as error:
        raise DataContractError(f"{source}: cannot be opened ({error.strerror})", _HINT) from error
    with stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield _row(source, number, line.removeprefix(b"\xef\xbb\xbf"), rules)


def _row(source: Path, number: int, line: bytes, rules: GraderRules) -> Row:
    try:
        row = json.loads(line.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataContractError(
            f"{source}, line {number}: expected a JSON object in UTF-8, got {error}", _HINT
        ) from error
    if not isinstance(row, dict):
        raise _broken(source, number, "the row", "a JSON object", row)
    name = row.get("verifier")
    if name is not None and name not in rules.names:
        wanted = f"one of {', '.join(rules.names)} or null"
        raise _broken(source, number, "field 'verifier'", wanted, name)
    needed = ("completion", "gold") if rules.verifier_of(row) == MATH else ("completion",)
    for name in needed:
        if not isinstance(row.get(name), str):
            raise _broken(source, number, f"field {name!r}", "a string", row.get(name))
    if "id" not in row or not isinstance(row["id"], str | int | None):
        raise _broken(source, number, "field 'id'", "a string, an integer or null", row.get("id"))
    kind = row.get("answer_type")
    if kind is not None and kind not in ANSWER_TYPES:
        wanted = f"one of {', '.join(ANSWER_TYPES)} or null"
        raise _broken(source, number, "field 'answer_type'", wanted, kind)
    tests = row.get("tests")
    if tests is not None and not isinstance(tests, str):
        row["tests"] = json.dumps(tests, ensure_ascii=False)
    return row


def _broken(source: Path, number: int, field: str, expected: str, got: object) -> DataContractError:
    shown = "nothing" if got is None else f"{type(got).__name__} {str(got)[:80]!r}"
    return DataContractError(
        f"{source}, line {number}, {field}: expected {expected}, got {shown}", _HINT
    )
