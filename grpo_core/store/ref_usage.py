"""Which rows of the reference caches artefacts rest on, and which of them are gone.

A receipt names its cache. Rollouts do not; what their key was made of says which one it was.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow.compute as pc

from grpo_core.errors import ArtifactError
from grpo_core.store.artifacts import Artifact
from grpo_core.store.files import read_json
from grpo_core.store.lake import Lake
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_rows import (
    CACHE_VERSION,
    Fingerprint,
    cache_version_of,
    fingerprint_of,
)

Rows = dict[str, list[str]]
"""Digest of a fingerprint → keys of rows; an empty digest stands for any cache."""


def open_cache(directory: Path) -> RefLogprobCache:
    """The reference cache in a directory, by its own fingerprint."""
    return RefLogprobCache(
        directory.parent, Fingerprint(**read_json(directory / "fingerprint.json"))
    )


def used_rows(artifact: Artifact) -> Rows:
    """The rows that a receipt or scored rollouts name."""
    tables, rows = artifact.manifest["tables"], {}
    if "ref_receipts" in tables:
        receipts = artifact.table("ref_receipts", ["fingerprint", "row_key"])
        for name in receipts.column("fingerprint").unique().to_pylist():
            own = receipts.filter(pc.equal(receipts.column("fingerprint"), name))
            rows[name] = own.column("row_key").unique().to_pylist()
    if "rollouts" in tables:
        rollouts = artifact.table("rollouts", ["ref_row_key", "ref_logprob_sum"])
        scored = rollouts.filter(pc.is_valid(rollouts.column("ref_logprob_sum")))
        if scored.num_rows:
            name = fingerprint_of(artifact.manifest["payload"])
            rows.setdefault(name, []).extend(scored.column("ref_row_key").unique().to_pylist())
    return rows


def older_cache(artifact: Artifact) -> str:
    """Which cache of an older version an artefact rests on, for a message; empty when none."""
    payload, tables = artifact.manifest["payload"], artifact.manifest["tables"]
    version, name = cache_version_of(payload), fingerprint_of(payload)
    has_rows = any(tables[t]["rows"] for t in ("ref_receipts", "rollouts") if t in tables)
    if version == CACHE_VERSION or not name or not has_rows:
        return ""
    return f"ref_logprobs/{name}, cache version {version} (this release reads {CACHE_VERSION})"


def judged_rows(lake: Lake, artifact: Artifact) -> Rows:
    """Rows that an artefact rests on, without those of caches of other releases."""
    if older_cache(artifact):
        return {}
    foreign = {path.name for path in lake.foreign_caches()}
    return {name: keys for name, keys in used_rows(artifact).items() if name not in foreign}


def missing_rows(lake: Lake, artifact: Artifact) -> Rows:
    """Rows that an artefact rests on and no cache has, by the parts that can be opened.

    Rows of a cache of another release are not judged. A part whose pages are damaged behind a whole
    footer counts as there: `RefLogprobCache.set_aside_damaged` decodes the pages.
    """
    missing: Rows = {}
    for name, keys in judged_rows(lake, artifact).items():
        left = keys
        for directory in caches_of(lake, name):
            left = open_cache(directory).missing(left)
        if left:
            missing[name] = left
    return missing


def caches_of(lake: Lake, fingerprint: str) -> list[Path]:
    """Cache directories with this digest; all for an empty one."""
    return [path for path in lake.ref_caches() if fingerprint in ("", path.name)]


def check_rows(lake: Lake, artifacts: Iterable[Artifact], *, hint: str) -> None:
    """Refuse artefacts whose rows are gone.

    Raises:
        ArtifactError: Says how many rows are missing of which artefact.
    """
    for artifact in artifacts:
        for name, keys in missing_rows(lake, artifact).items():
            raise ArtifactError(describe_missing(artifact, name, keys), hint=hint)


def describe_missing(artifact: Artifact, fingerprint: str, keys: list[str]) -> str:
    """What is missing, for a message."""
    total = len(used_rows(artifact)[fingerprint])
    return (
        f"{len(keys)} of the {total} reference rows that {artifact.path} rests on are missing "
        f"from ref_logprobs/{fingerprint or '*'}"
    )
