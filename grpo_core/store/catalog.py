"""What SQL views are built from: complete artefacts, damaged ones, and who used what.

The catalog is read from manifests and run records, never from globs, so that staging, trash and
partial work can not leak into a query.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One complete artefact generation.

    Args:
        kind: Kind of artefact (`samples`, `train`, …).
        stage: Stage that makes it.
        key: Full key, 64 hex digits.
        content: Content digest, 64 hex digits.
        is_current: Whether CURRENT points at this generation.
        tables: Table name → Parquet files, in part order.
        ref_fingerprint: Reference cache that the artefact rests on; empty when none.
        has_older_cache: That cache is of an older version, which this release does not read.
    """

    kind: str
    stage: str
    key: str
    content: str
    is_current: bool
    tables: dict[str, tuple[Path, ...]]
    ref_fingerprint: str = ""
    has_older_cache: bool = False


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """An artefact that is left out of every view, and why."""

    stage: str
    key: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunArtifact:
    """One row of `run_artifacts`: run, attempt and artefact.

    Args:
        run: Run name.
        attempt: 1-based attempt of the run.
        stage: Stage name.
        label: Node of the DAG: `samples`, `train/2`, `eval_samples/base`, …
        kind: Kind of artefact.
        phase: Phase number for train, band and evaluation nodes; 0 for the base model; -1 else.
        key: Full key.
        content: Full content digest.
        state: `Computed` or `Reused`.
        seconds: Wall seconds that this attempt spent on the node.
        tokens: Tokens this attempt generated for the node.
        finished_at: ISO-8601 UTC.
    """

    run: str
    attempt: int
    stage: str
    label: str
    kind: str
    phase: int
    key: str
    content: str
    state: str
    seconds: float
    tokens: int
    finished_at: str


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything a warehouse needs to build its views.

    Args:
        entries: Complete artefacts (all generations).
        damaged: Artefacts left out.
        run_artifacts: Who used what; the latest attempt of a run lists all its nodes.
        live_files: Table name (`rollouts`, `steps`, `events`) → unit files of phases in progress.
        ref_parts: Parts of the reference caches.
    """

    entries: tuple[CatalogEntry, ...]
    damaged: tuple[DamagedEntry, ...]
    run_artifacts: tuple[RunArtifact, ...]
    live_files: dict[str, tuple[Path, ...]]
    ref_parts: tuple[Path, ...] = ()
