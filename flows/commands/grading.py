"""`grpo grade`: the product's verdicts on completions from anywhere."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.console import say

if TYPE_CHECKING:
    from grpo_core.rewards import Verdict

BATCH_ROWS = 2000
_REQUIRED = ("id", "completion", "gold")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("grade")(grade_command)


def grade_command(
    source: Annotated[
        Path, typer.Argument(metavar="IN.jsonl", help="Rows {id, completion, gold, answer_type?}.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT.jsonl", help="Rows {id, label, reward_raw, extracted, reason}."
        ),
    ],
) -> None:
    """Grade completions against gold answers, one JSON row each, order kept."""
    from collections import Counter

    from grpo_core.rewards import VerifierPool

    counts: Counter[str] = Counter()
    rows = read_rows(source)
    draft = target.with_name(target.name + ".tmp")
    with VerifierPool() as pool, draft.open("w", encoding="utf-8") as stream:
        while batch := list(islice(rows, BATCH_ROWS)):
            verdicts = pool.grade_batch(
                [(row["completion"], row["gold"], row.get("answer_type")) for row in batch]
            )
            for row, verdict in zip(batch, verdicts, strict=True):
                stream.write(json.dumps(graded_row(row, verdict), ensure_ascii=False) + "\n")
                counts[verdict.label.value] += 1
    draft.replace(target)
    summary = ", ".join(f"{count:,} {label}" for label, count in counts.most_common())
    say(f"{counts.total():,} rows: {summary or 'none'}")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of the input, each checked.

    Raises:
        DataContractError: A row that can not be graded; the message names its line.
    """
    from grpo_core.errors import DataContractError

    if not path.is_file():
        raise DataContractError(f"{path} does not exist")
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataContractError(f"{path} line {number} is not JSON: {error}") from error
            wrong = _what_is_wrong(row)
            if wrong:
                raise DataContractError(
                    f"{path} line {number}: {wrong}",
                    hint='a row is {"id": …, "completion": "text", "gold": "answer"}',
                )
            yield row


def graded_row(row: dict[str, Any], verdict: "Verdict") -> dict[str, Any]:
    """The output row of one verdict."""
    return {
        "id": row["id"],
        "label": verdict.label.value,
        "reward_raw": verdict.reward_raw,
        "extracted": verdict.extracted,
        "reason": verdict.reason,
    }


def _what_is_wrong(row: Any) -> str:
    if not isinstance(row, dict):
        return f"expected an object, got {type(row).__name__}"
    missing = [name for name in _REQUIRED if name not in row]
    if missing:
        return f"has no {', '.join(missing)}"
    texts = [name for name in ("completion", "gold") if not isinstance(row[name], str)]
    return f"{', '.join(texts)} must be text" if texts else ""
