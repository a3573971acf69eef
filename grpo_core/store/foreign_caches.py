"""Reference caches of other releases: what they are, and which runs rest on them.

This release neither reads nor repairs them. One goes only when it is of an older version, no run's
record points to it, no training is in progress, and somebody asks for it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError
from grpo_core.store.catalog import Catalog
from grpo_core.store.files import read_json
from grpo_core.store.lake import Lake
from grpo_core.store.reading import entries_in, reading
from grpo_core.store.ref_rows import CACHE_VERSION, Fingerprint, rests_on_cache


@dataclass(frozen=True, slots=True)
class ForeignCache:
    """A reference cache of another release.

    Args:
        path: Its directory, relative to the lake's root.
        reference: What it was computed with, as far as it says.
        num_bytes: Its size.
        last_written: When its newest file was written, ISO-8601 UTC.
        kept_for: Why it stays: runs that rest on it, or what cannot be known; empty when it can go.
    """

    path: Path
    reference: str
    num_bytes: int
    last_written: str
    kept_for: str


def find_foreign_caches(lake: Lake) -> list[ForeignCache]:
    """Every reference cache of another release, and whether it can go."""
    directories = lake.foreign_caches()
    if not directories:
        return []
    users, doubt = _users(lake.catalog())
    if any(path.is_dir() for path in entries_in(lake.root / "partial" / "train")):
        doubt = "training that is in progress may rest on it"
    return [_describe(lake, path, users.get(path.name, set()), doubt) for path in directories]


def _describe(lake: Lake, directory: Path, runs: set[str], doubt: str) -> ForeignCache:
    status = [path.stat() for path in directory.rglob("*") if path.is_file()]
    newest = datetime.fromtimestamp(max(file.st_mtime for file in status), UTC)
    fingerprint = _fingerprint(directory)
    if fingerprint is None:
        reference, doubt = "unknown reference", "its fingerprint.json does not name it"
    else:
        reference = (
            f"version {fingerprint.version}, {fingerprint.dtype}, {fingerprint.attention}, "
            f"weights {fingerprint.weights[:12]}, tokenizer {fingerprint.tokenizer[:12]}"
        )
        if not fingerprint.version < CACHE_VERSION:
            doubt = "it is of a newer release, whose runs this one cannot judge"
    return ForeignCache(
        path=directory.relative_to(lake.root),
        reference=reference,
        num_bytes=sum(file.st_size for file in status),
        last_written=newest.isoformat(timespec="seconds"),
        kept_for=f"run {', '.join(sorted(runs))}" if runs else doubt,
    )


def _fingerprint(directory: Path) -> Fingerprint | None:
    """Of a cache of any version; None when the file does not give the directory its name."""
    path = directory / "fingerprint.json"
    try:
        with reading(path):
            values: Any = read_json(path)
            fingerprint = Fingerprint(**values)
            return fingerprint if fingerprint.digest == directory.name else None
    except (ArtifactError, TypeError):
        return None


def _users(catalog: Catalog) -> tuple[dict[str, set[str]], str]:
    """Digest of a fingerprint → runs whose artefacts rest on it; and what stands in doubt."""
    fingerprints = {(entry.key, entry.content): entry.ref_fingerprint for entry in catalog.entries}
    users: dict[str, set[str]] = {}
    lost = [f"run {entry.key}, whose records are damaged," for entry in catalog.lost_runs]
    doubt = f"{lost[0]} may rest on it" if lost else ""
    for row in catalog.run_artifacts:
        if not rests_on_cache(row.kind):
            continue
        name = fingerprints.get((row.key, row.content))
        if name is None:
            doubt = f"{row.label} of run {row.run}, which cannot be read, may rest on it"
        else:
            users.setdefault(name, set()).add(row.run)
    return users, doubt
