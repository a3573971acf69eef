"""`grpo lake export` and `import`: one run with everything it needs, in one file.

The file is a tar archive of a small lake:

```
export.json                          run, and bytes and sha256 of every other file
runs/<run>/…                         records, configuration, progress
artifacts/<stage>/<key>/<content12>/ what the run uses, and of earlier attempts what is there
ref_logprobs/<fingerprint>/          the cache rows that its rollouts were trained with
```

An import checks every file before anything of it is in the lake, and moves the run's records last:
a run is there with all it needs, or not at all.
"""

import os
import shutil
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.store.artifacts import CURRENT, check_files, read_artifact
from grpo_core.store.files import (
    FileDigests,
    fsync_directory,
    fsync_file,
    link_or_copy,
    read_json,
    sha256_file,
    write_json,
    write_text,
)
from grpo_core.store.lake import Lake, is_run_name
from grpo_core.store.locks import hold_or_refuse
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_claims import read_fingerprint
from grpo_core.store.ref_usage import check_rows, judged_rows, open_cache, used_rows
from grpo_core.store.run_records import read_run

EXPORT = "export.json"
EXPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was exported or imported.

    Args:
        run: Run name.
        num_artifacts: Generations; on import those that were not there yet.
        num_cache_rows: Reference rows; on import those that were not there yet.
        num_bytes: Bytes of all files.
    """

    run: str
    num_artifacts: int
    num_cache_rows: int
    num_bytes: int


def export_run(lake: Lake, run: str, target: Path) -> Exchange:
    """Write a run and everything it needs into the tar archive `target`.

    Raises:
        ConfigError: There is no such run.
        ArtifactError: Something that the run uses is missing or damaged.
        RunBusyError: The run is at work, or the lake is being cleaned.
    """
    catalog = lake.catalog(run)
    pins = latest_pins(lake, [run])
    for entry in catalog.damaged:
        if any(key == entry.key and entry.path.endswith(content) for _, key, content in pins):
            raise ArtifactError(
                f"run {run!r} cannot be exported: {entry.path}: {entry.reason}",
                hint=f"grpo run --run {run} makes it again",
            )
    artifacts = [lake.store.generation(*pin) for pin in sorted(pins)]
    hint = f"grpo lake restore --run {run} scores them again"
    check_rows(lake, artifacts, hint=hint)
    needed = [rows for artifact in artifacts for rows in judged_rows(lake, artifact).items()]
    who = hold_or_refuse(lake.lock_path(f"run-{run}"), "grpo lake export", what=f"run {run!r}")
    with who, lake.in_use(f"export of run {run!r}"), _scratch(lake) as scratch:
        generations = sorted({(e.stage, e.key, e.content) for e in catalog.entries})
        for stage, key, content in generations:
            source = lake.store.generation(stage, key, content).path
            _copy(source, scratch / source.relative_to(lake.root))
        exported = _export_cache(lake, scratch, row_keys(lake, generations))
        for name, keys in needed:
            there = exported.get(name, set()) if name else set().union(*exported.values())
            if unread := set(keys) - there:
                raise ArtifactError(
                    f"{len(unread)} of the {len(keys)} reference rows that an artefact of run "
                    f"{run!r} rests on lie in damaged parts of ref_logprobs/{name or '*'}",
                    hint=hint,
                )
        _copy(lake.run_directory(run), scratch / "runs" / run)
        files = _listing(scratch)
        write_json(scratch / EXPORT, {"version": EXPORT_VERSION, "run": run, "files": files})
        _pack(scratch, target)
    total = sum(entry["bytes"] for entry in files.values())
    return Exchange(run, len(generations), sum(map(len, exported.values())), total)


def import_run(lake: Lake, source: Path, *, name: str = "") -> Exchange:
    """Bring an exported run into the lake.

    Args:
        lake: Where to.
        source: The archive.
        name: Name that the run gets here; empty keeps its own.

    Raises:
        ArtifactError: The archive is not an export, or a file of it is missing or changed.
        ConfigError: The lake has a run of that name.
        RunBusyError: The lake is being cleaned.
    """
    with lake.in_use(f"import of {source}"), _scratch(lake) as scratch:
        _unpack(source, scratch)
        record = _checked_record(source, scratch)
        run = name or str(record["run"])
        final = lake.run_directory(run)
        what = f"run name {run!r}"
        with hold_or_refuse(lake.lock_path(f"run-{run}"), "grpo lake import", what=what):
            if final.exists():
                raise ConfigError(
                    f"run: the lake has a run called {run!r}", hint="import it with --as NAME"
                )
            num_artifacts = sum(
                _settle(lake, path) for path in sorted(scratch.glob("artifacts/*/*/*"))
            )
            num_rows = sum(
                _import_cache(lake, path) for path in sorted(scratch.glob("ref_logprobs/*"))
            )
            _move_records(scratch / "runs" / str(record["run"]), final)
    total = sum(int(entry["bytes"]) for entry in record["files"].values())
    return Exchange(run, num_artifacts, num_rows, total)


@contextmanager
def _scratch(lake: Lake) -> Iterator[Path]:
    """A directory on the lake's file system that goes in the end."""
    path = lake.root / ".staging" / uuid.uuid4().hex
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def latest_pins(lake: Lake, runs: Iterable[str]) -> set[tuple[str, str, str]]:
    """(stage, key, name of the generation) of what the runs use now."""
    return {
        (node["stage"], node["key"], node["content"][:12])
        for run in runs
        for node in read_run(lake.run_directory(run))["nodes"].values()
    }


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=link_or_copy)


def row_keys(lake: Lake, generations: Iterable[tuple[str, str, str]]) -> list[str]:
    """Keys of the cache rows that receipts and scored rollouts name."""
    keys: dict[str, None] = {}
    for place in generations:
        for used in used_rows(lake.store.generation(*place)).values():
            keys |= dict.fromkeys(used)
    return list(keys)


def _export_cache(lake: Lake, scratch: Path, keys: list[str]) -> dict[str, set[str]]:
    """Copy the rows that can be read; returns their keys by digest of the fingerprint."""
    exported: dict[str, set[str]] = {}
    for directory in lake.ref_caches():
        cache = open_cache(directory)
        there, found = cache.take(keys)
        if there:
            values = [v for v in found.logprobs if v is not None]
            copy = RefLogprobCache(scratch / "ref_logprobs", cache.fingerprint)
            copy.absorb(there, values, found.scored_by)
            exported[directory.name] = set(there)
            (copy.directory / ".lock").unlink()
    return exported


def _import_cache(lake: Lake, directory: Path) -> int:
    if read_fingerprint(directory) is None:
        raise ArtifactError(
            f"{directory.name}: the exported reference cache is of another release",
            hint="export the run again with this release",
        )
    exported = open_cache(directory)
    keys, found = exported.take(exported.keys())
    values = [v for v in found.logprobs if v is not None]
    if len(keys) != exported.num_rows:
        raise ArtifactError(f"{directory.name}: a part of the exported reference cache is damaged")
    cache = RefLogprobCache(lake.root / "ref_logprobs", exported.fingerprint)
    return cache.absorb(keys, values, found.scored_by)


def _listing(root: Path) -> dict[str, dict[str, Any]]:
    return {
        path.relative_to(root).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256_file(path),
        }
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _pack(scratch: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        with tarfile.open(temporary, "w") as archive:
            archive.dereference = True  # hard links are files of their own elsewhere
            for path in sorted(scratch.rglob("*")):
                archive.add(path, path.relative_to(scratch).as_posix(), recursive=False)
        fsync_file(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(target.parent)


def _unpack(source: Path, scratch: Path) -> None:
    try:
        with tarfile.open(source, "r:") as archive:
            archive.extractall(scratch, filter="data")
    except (tarfile.TarError, FileNotFoundError) as error:
        raise ArtifactError(
            f"{source} cannot be read as an export: {error}", hint="copy the file again"
        ) from error


def _checked_record(source: Path, scratch: Path) -> dict[str, Any]:
    """export.json, after every file was compared with it."""
    path = scratch / EXPORT
    if not path.is_file():
        raise ArtifactError(f"{source} holds no {EXPORT}", hint="make it with grpo lake export")
    record: dict[str, Any] = read_json(path)
    if record.get("version") != EXPORT_VERSION:
        raise ArtifactError(
            f"{source} has export version {record.get('version')}, expected {EXPORT_VERSION}"
        )
    if not is_run_name(str(record.get("run"))):
        raise ArtifactError(f"{source}: {EXPORT}: run: {record.get('run')!r} is not a run name")
    path.unlink()
    found = _listing(scratch)
    for name in sorted({*record["files"], *found}):
        if found.get(name) != record["files"].get(name):
            raise ArtifactError(
                f"{source}: {name} is missing, changed or not listed", hint="copy the file again"
            )
    return record


def _settle(lake: Lake, staged: Path) -> bool:
    """Move one generation into the lake; returns whether it was not there yet."""
    artifact = read_artifact(staged)
    check_files(artifact, FileDigests(None))
    if artifact.key != staged.parent.name:
        raise ArtifactError(f"{staged.name} is of key {artifact.key}, not of {staged.parent.name}")
    directory = lake.store.key_directory(staged.parent.parent.name, artifact.key)
    directory.mkdir(parents=True, exist_ok=True)
    is_new = lake.store.settle(staged, directory / staged.name)
    if not (directory / CURRENT).is_file():
        write_text(directory / CURRENT, staged.name + "\n")
    return is_new


def _move_records(staged: Path, final: Path) -> None:
    """The run's records, under the name that it has here."""
    record = staged / "run.json"
    write_json(record, {**read_json(record), "run": final.name})
    final.parent.mkdir(parents=True, exist_ok=True)
    os.rename(staged, final)
    fsync_directory(final.parent)
