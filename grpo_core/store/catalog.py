"""What SQL views are built from: complete artefacts, damaged ones, and who used what.

The catalog is read from manifests and run records, never from globs, so that staging, trash and
partial work can not leak into a query.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from grpo_core.errors import DataContractError
from grpo_core.types import StageName


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
    """An artefact or a run that is left out of every view, and why.

    Args:
        stage: Stage that made it; empty for the record of a run.
        key: Full key, or the name of a run or a reference cache.
        path: From the lake's root.
        reason: What is wrong.
        hint: What to do, where running the stage again does not mend it.
        is_unreadable: The system did not let it be read, which says nothing about its bytes.
    """

    stage: str
    key: str
    path: str
    reason: str
    hint: str = ""
    is_unreadable: bool = False

    @property
    def is_run(self) -> bool:
        """Whether it is a run, or a record of one, and not an artefact."""
        return not self.stage


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
        damaged: Artefacts left out, and runs whose records are damaged.
        run_artifacts: Who used what; the latest attempt of a run lists all its nodes.
        live_files: Table name (`rollouts`, `steps`, `events`) → unit files of phases in progress.
        ref_parts: Parts of the reference caches.
    """

    entries: tuple[CatalogEntry, ...]
    damaged: tuple[DamagedEntry, ...]
    run_artifacts: tuple[RunArtifact, ...]
    live_files: dict[str, tuple[Path, ...]]
    ref_parts: tuple[Path, ...] = ()

    @property
    def lost_runs(self) -> tuple[DamagedEntry, ...]:
        """Runs of which nobody knows what they use."""
        return tuple(entry for entry in self.damaged if entry.is_run)


def narrow(catalog: Catalog, *, stage: str = "", phase: int | None = None) -> Catalog:
    """Leave artefacts out before their files are listed, so that no query opens them.

    Args:
        catalog: What there is.
        stage: Only artefacts of this stage; empty for all.
        phase: Of the training phases only this one; what belongs to no phase, the prefilter and the
            base model stay. None for all.

    Raises:
        DataContractError: There is no stage of this name; or nothing has this stage or phase, and
            nothing is in progress that may have it.
    """
    phases: dict[tuple[str, str], set[int]] = {}
    for row in catalog.run_artifacts:
        phases.setdefault((row.key, row.content), set()).add(row.phase)
    is_live = any(catalog.live_files.values())
    stages = set(StageName) if is_live else {entry.stage for entry in catalog.entries}
    _check_known("stage", stage or None, stages)
    if not is_live:
        _check_known("phase", phase, {number for numbers in phases.values() for number in numbers})

    def is_wanted(entry: CatalogEntry) -> bool:
        numbers = phases.get((entry.key, entry.content), {0})
        is_of_phase = phase is None or phase in numbers or min(numbers) <= 0
        return is_of_phase and stage in ("", entry.stage)

    return replace(catalog, entries=tuple(filter(is_wanted, catalog.entries)))


def parts_in_use(entries: Iterable[CatalogEntry], parts: Iterable[Path]) -> tuple[Path, ...]:
    """Cache parts of the references that artefacts rest on; all when one does not say which."""
    tables = ("rollouts", "ref_receipts")
    used = {e.ref_fingerprint for e in entries if any(name in e.tables for name in tables)}
    return tuple(part for part in parts if "" in used or part.parent.name in used)


def _check_known(name: str, value: object, known: Iterable[object]) -> None:
    values = sorted(known, key=str)
    if value is not None and value not in values:
        hint = f"{name}s: {', '.join(map(str, values)) or 'none yet'}"
        raise DataContractError(f"--{name}: nothing here has {name} {value!r}", hint=hint)
