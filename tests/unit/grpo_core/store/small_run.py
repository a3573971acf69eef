"""A lake made by hand: one run with a receipt of some rows of a reference cache."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from grpo_core.store import Fingerprint, Lake, RefLogprobCache, RefRow
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.files import write_json
from grpo_core.store.schemas import REF_RECEIPTS

KEY = "a" * 64
PRINT = Fingerprint("w", "t", "float32", "sdpa")
ROWS = [RefRow((n,), range(5), 1.0) for n in range(9)]
VALUES = [-np.arange(1, 6, dtype=np.float32) / (2 * n + 7) for n in range(9)]


def publish(lake: Lake, rows: list[RefRow]) -> Artifact:
    receipts = {
        "row_key": [row.key for row in rows],
        "prompt_id": ["p"] * len(rows),
        "sample_index": range(len(rows)),
        "fingerprint": [PRINT.digest] * len(rows),
        "num_completion_tokens": [5] * len(rows),
        "ref_logprob_sum": [-1.0] * len(rows),
    }
    table = pa.Table.from_pydict(receipts, schema=REF_RECEIPTS.schema)
    tables = {"ref_receipts": table}
    return lake.store.publish(Draft("ref_logp", "ref-logp", KEY, {}, tables=tables))


def node(artifact: Artifact, kind: str = "ref_logp", **fields: object) -> dict[str, object]:
    """What a run's record says of an artefact; by default of a stage that makes one kind."""
    return {
        "stage": kind.replace("_", "-"),
        "label": kind,
        "kind": kind,
        "phase": -1,
        "key": artifact.key,
        "content": artifact.content,
        "state": "Computed",
        "seconds": 1.0,
        "tokens": 0,
        "finished_at": "2026-01-01T00:00:00+00:00",
        **fields,
    }


def make_lake(root: Path) -> Lake:
    """A run that uses rows 2 … 5 of a cache with nine."""
    lake = Lake(root)
    RefLogprobCache(lake.root / "ref_logprobs", PRINT).put_many(ROWS, VALUES, scored_by="who")
    record = node(publish(lake, ROWS[2:6]))
    write_json(lake.root / "runs/r/config.json", {})
    write_json(lake.root / "runs/r/attempts/0001.json", {"attempt": 1, "nodes": [record]})
    write_json(lake.root / "runs/r/run.json", {"attempt": 1, "nodes": {"ref_logp": record}})
    return lake
