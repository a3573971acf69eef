"""A small lake that keeps every contract: rows by node and table, written as Parquet on demand.

A test changes rows in place and writes the lake; each audit must then find what was changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lake_rows import Row, digest
from lake_training_rows import RowMaker

from grpo_core.store.catalog import Catalog, CatalogEntry, DamagedEntry, RunArtifact
from grpo_core.store.ref_parts import SCHEMA as REF_LOGPROBS
from grpo_core.store.schemas import TABLES

STAGES = {
    "prompts": "ingest",
    "samples": "prefilter",
    "verdicts": "prefilter",
    "bands": "prefilter",
    "variants": "variants",
    "ref_logp": "ref-logp",
    "train": "train",
    "eval_samples": "evaluate",
    "eval_verdicts": "evaluate",
}


@dataclass
class LakeFixture:
    """Node label -> table -> rows of one run."""

    run: str = "tiny"
    nodes: dict[str, dict[str, list[Row]]] = field(default_factory=dict)
    damaged: list[DamagedEntry] = field(default_factory=list)
    written: dict[tuple[str, str], tuple[Path, ...]] = field(default_factory=dict)
    ref_rows: list[Row] = field(default_factory=list)
    ref_fingerprint: str = "fingerprint"
    has_older_cache: bool = False

    def rows(self, label: str, table: str) -> list[Row]:
        return self.nodes[label][table]

    def all_rows(self, table: str) -> Iterator[Row]:
        for tables in self.nodes.values():
            yield from tables.get(table, [])

    def content(self, label: str) -> str:
        """Content digest of the artefact of a node."""
        return digest(self.run, label, "content")

    def key(self, label: str) -> str:
        return digest(self.run, label)

    def write(self, directory: Path, *, like: "LakeFixture | None" = None) -> Catalog:
        """Write every table as Parquet and return the catalog.

        Tables whose rows are those of `like`, which was written before, keep its files.
        """
        entries, used = [], []
        for label, tables in self.nodes.items():
            kind = label.split("/")[0]
            key, content = self.key(label), self.content(label)
            files = {}
            for name, rows in tables.items():
                if like is not None and rows == like.nodes[label][name]:
                    files[name] = like.written[label, name]
                else:
                    files[name] = tuple(write_parts(directory / label / name, name, rows))
            self.written |= {(label, name): paths for name, paths in files.items()}
            reference = self.ref_fingerprint if kind == "train" else ""
            older = self.has_older_cache and kind == "train"
            entries.append(
                CatalogEntry(kind, STAGES[kind], key, content, True, files, reference, older)
            )
            used.append(self._used(label, kind, key, content))
        return Catalog(
            tuple(entries), tuple(self.damaged), tuple(used), {}, (self._write_cache(directory),)
        )

    def _write_cache(self, directory: Path) -> Path:
        path = directory / "ref_logprobs" / "fingerprint" / "part-00000000-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(self.ref_rows, REF_LOGPROBS), path)
        return path

    def _used(self, label: str, kind: str, key: str, content: str) -> RunArtifact:
        timings = self.nodes[label]["timings"]
        return RunArtifact(
            run=self.run,
            attempt=1,
            stage=STAGES[kind],
            label=label,
            kind=kind,
            phase=phase_of(label),
            key=key,
            content=content,
            state="Computed",
            seconds=sum(row["seconds"] for row in timings),
            tokens=sum(row["tokens"] for row in timings),
            finished_at=f"2026-01-01T00:{len(label):02d}:00.000+00:00",
        )


EMPTY = Catalog((), (), (), {})
"""The catalog of an empty lake."""


def phase_of(label: str) -> int:
    _, _, suffix = label.partition("/")
    return 0 if suffix == "base" else int(suffix) if suffix else -1


def write_parts(
    directory: Path, table: str, rows: list[Row], rows_per_part: int = 10_000
) -> Iterator[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    whole = pa.Table.from_pylist(rows, TABLES[table].schema)
    for part, start in enumerate(range(0, max(len(rows), 1), rows_per_part)):
        path = directory / f"part-{part:05d}.parquet"
        pq.write_table(whole.slice(start, rows_per_part), path)
        yield path


def make_lake(
    *,
    run: str = "tiny",
    num_train: int = 24,
    num_test: int = 10,
    samples_per_prompt: int = 8,
    group_size: int = 4,
    groups_per_batch: int = 6,
    budgets: tuple[int, ...] = (24, 40),
    batches_per_phase: int = 2,
    updates: int = 2,
    seed: int = 0,
    sample_tokens: int = 16,
    rollout_tokens: int = 16,
) -> LakeFixture:
    """A run with prompts, prefilter, variants, receipts, phases and evaluations."""
    maker = RowMaker(np.random.default_rng(seed), group_size)
    maker.mean_tokens = sample_tokens
    lake = LakeFixture(run)
    prompts = maker.prompts(num_train, num_test)
    train = [row for row in prompts if row["split"] == "train" and not row["duplicate_of"]]
    test = [row for row in prompts if row["split"] == "test"]
    lake.nodes["prompts"] = {"prompts": prompts}
    samples, verdicts = maker.sampled(train, samples_per_prompt, budgets[0], 0.0)
    lake.nodes["samples"] = {"samples": samples}
    lake.nodes["verdicts"] = {"verdicts": verdicts}
    lake.nodes["bands/0"] = {"bands": maker.bands(samples, verdicts, 0)}
    lake.nodes["variants"] = {"variants": maker.variants(train)}
    lake.nodes["ref_logp"] = {"ref_receipts": maker.receipts(samples[:6])}
    step = 1
    maker.mean_tokens = rollout_tokens
    for phase, budget in enumerate(budgets, start=1):
        rollouts: list[Row] = []
        steps: list[Row] = []
        for batch in range(batches_per_phase):
            rows = maker.rollouts(train, phase, step, budget, groups_per_batch, updates)
            rollouts += rows
            steps += maker.steps(rows, phase, step, batch, budget, updates)
            step += updates
        steps[-1]["validation_pass_at_1"] = 0.2 + 0.02 * step
        event = {
            "phase": phase,
            "step": steps[0]["step"],
            "event_index": 0,
            "kind": "learning_rate_warm",
            "before": 0.0,
            "after": 1e-3,
            "reason": "warm-up finished",
        }
        lake.nodes[f"train/{phase}"] = {
            "rollouts": rollouts,
            "steps": steps,
            "events": [event],
            "ref_reads": maker.reads(steps),
        }
        lake.ref_rows += [maker.cached(row) for row in rollouts]
        before = lake.rows(f"bands/{phase - 1}", "bands")
        lake.nodes[f"bands/{phase}"] = {"bands": [{**row, "phase": phase} for row in before]}
    maker.mean_tokens = sample_tokens
    for phase in range(len(budgets) + 1):
        label = str(phase) if phase else "base"
        evaluated, graded = maker.sampled(test, samples_per_prompt, budgets[-1], 1.1 * phase)
        for row in (*evaluated, *graded):
            row["checkpoint"] = f"checkpoint-{label}"
        lake.nodes[f"eval_samples/{label}"] = {"eval_samples": evaluated}
        lake.nodes[f"eval_verdicts/{label}"] = {"eval_verdicts": graded}
    for tables in lake.nodes.values():
        tables["timings"] = [maker.timing(tables)]
    return lake


def count_in_database(path: Path) -> int:
    with duckdb.connect(path, read_only=True) as client:
        return int(client.execute("select count(*) from samples").fetchall()[0][0])
