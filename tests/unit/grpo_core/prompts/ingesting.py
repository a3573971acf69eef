"""Small sources and how they are ingested, for tests."""

import json
from pathlib import Path

from grpo_core.config.data import PromptsConfig
from grpo_core.prompts.ingest import ingest

GIVEN = {"validation_source": "validation.jsonl", "test_source": "test.jsonl"}


def accept(gold: str, answer_type: str | None) -> str | None:
    return None if gold.replace(",", "").isdigit() else f"not a number: {gold}"


def row(question: object, gold: object) -> dict[str, object]:
    return {"question": question, "answer": f"because\n#### {gold}"}


def write_lines(path: Path, rows: list[object]) -> None:
    lines = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")


def run(directory: Path, **fields: object):
    config = PromptsConfig(**{"source": "train.jsonl", **GIVEN, **fields})
    return ingest(config, base_directory=directory, check_gold=accept)


def reasons(result) -> dict[int, str]:
    rows = result.table.to_pylist()
    return {r["row_number"]: r["quarantine_reason"] for r in rows if r["source"] == "source"}
