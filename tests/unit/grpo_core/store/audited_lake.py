"""Lakes made by hand: generations of what an audit found, and who uses them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from small_run import PRINT, node

from grpo_core.stages.records import NodeResult, RunRecords
from grpo_core.store import Lake, RefLogprobCache, RefRow
from grpo_core.store.artifacts import Artifact, Draft
from grpo_core.store.canonical import sha256_json
from grpo_core.store.files import write_json
from grpo_core.store.schemas import AUDIT_RESULTS

PAYLOAD: dict[str, object] = {}
KEY = sha256_json(PAYLOAD)


def publish(lake: Lake, rows: int) -> Artifact:
    table = pa.Table.from_pylist(
        [{"audit": "a", "severity": "warn", "num_rows": rows, "why": "w"}],
        schema=AUDIT_RESULTS.schema,
    )
    return lake.store.publish(
        Draft("audit", "audit", KEY, PAYLOAD, tables={"audit_results": table})
    )


def pin(lake: Lake, artifact: Artifact) -> None:
    nodes = {"audit": node(artifact, "audit")}
    write_json(lake.root / "runs/r/config.json", {})
    write_json(lake.root / "runs/r/run.json", {"attempt": 1, "nodes": nodes})


def use(lake: Lake, run: str, artifact: Artifact) -> None:
    """One attempt of a run that used the artefact."""
    records = RunRecords(lake.run_directory(run))
    write_json(records.directory / "config.json", {})
    records.begin({}, {"audit"})
    records.add(
        NodeResult(
            label="audit",
            kind="audit",
            stage="audit",
            phase=-1,
            key=artifact.key,
            content=artifact.content,
            path="x",
            state="Computed",
            seconds=1.0,
            tokens=0,
            figures={},
            finished_at="2026-01-01T00:00:00+00:00",
        )
    )
    records.finish("Completed", "")


def fill_cache(lake: Lake, parts: int = 2) -> RefLogprobCache:
    cache = RefLogprobCache(lake.root / "ref_logprobs", PRINT)
    for part in range(parts):
        items = [RefRow((part, n), range(5), 1.0) for n in range(3)]
        cache.put_many(items, [-np.arange(1, 6, dtype=np.float32) / 7] * 3)
    return cache


def make_audited_lake(root: Path) -> Lake:
    """Run `r` with an artefact, an older generation of it and a cache that it does not use."""
    lake = Lake(root)
    publish(lake, 1)
    pin(lake, publish(lake, 2))
    fill_cache(lake)
    return lake
