"""`grpo lake export` and `import`: one run with everything it needs, in one file.

The file is a tar archive of a small lake:

```
export.json                          run, and bytes and sha256 of every other file
runs/<run>/…                         records, configuration, progress, logs
artifacts/<stage>/<key>/<content12>/ what the run uses, and of earlier attempts what is there
ref_logprobs/<fingerprint>/          the cache rows that its rollouts were trained with
```

An import checks every file before anything of it is in the lake, and moves the run's records last:
a run is there with all it needs, or not at all. An archive is data: what lets a later command run
code is refused, see `arrivals`.
"""

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.store.archives import (
    EXPORT,
    EXPORT_VERSION,
    Member,
    claimed_beside,
    members_below,
    pack,
    scratch_beside,
    unpack,
)
from grpo_core.store.arrivals import check_records, code_in, drop_strangers, record_files
from grpo_core.store.artifacts import CURRENT, Artifact, check_files, read_artifact
from grpo_core.store.files import (
    FileDigests,
    fsync_directory,
    naming_errors,
    read_json,
    write_json,
    write_text,
)
from grpo_core.store.lake import Lake
from grpo_core.store.locks import NAME_IN_USE, hold_or_refuse
from grpo_core.store.manifests import MANIFEST
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_claims import read_fingerprint
from grpo_core.store.ref_rows import Fingerprint, Found, check_stored_values
from grpo_core.store.ref_usage import check_rows, judged_rows, open_cache, used_rows
from grpo_core.store.run_records import check_run, check_settings, read_run

Place = tuple[str, str, str]
"""Stage, key and name of a generation."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was exported or imported.

    Args:
        run: Run name.
        num_artifacts: Generations; on import those that were not there yet.
        num_cache_rows: Reference rows; on import those that were not there yet.
        num_bytes: Bytes of all files.
        left_out: What did not move: damaged artefacts of earlier attempts; on import, files of the
            run's directory that are no records.
    """

    run: str
    num_artifacts: int
    num_cache_rows: int
    num_bytes: int
    left_out: tuple[str, ...] = ()


def export_run(lake: Lake, run: str, target: Path) -> Exchange:
    """Write a run and everything it needs into the tar archive `target`.

    Raises:
        ConfigError: There is no such run, or there can be no such archive.
        ArtifactError: Something that the run uses is missing or damaged.
        RunBusyError: The run is at work, or the lake is being cleaned.
    """
    _check_target(target)
    used = {(row.stage, row.key, row.content[:12]) for row in lake.catalog(run).run_artifacts}
    who = hold_or_refuse(
        lake.lock_path(f"run-{run}"), "grpo lake export", what=f"run {run!r}", is_reading=True
    )
    with (
        who,
        lake.in_use(f"export of run {run!r}", is_reading=True),
        _scratch_for(lake, target) as scratch,
    ):
        check_run(lake.run_directory(run))
        check_settings(lake.run_directory(run))
        pins = latest_pins(lake, [run])
        artifacts, left_out = _sound_artifacts(lake, run, used, pins)
        pinned = [artifacts[pin] for pin in sorted(pins)]
        hint = f"grpo lake restore --run {run} scores them again"
        check_rows(lake, pinned, hint=hint)
        exported = _export_cache(lake, scratch, row_keys(lake, sorted(artifacts)))
        _check_exported(lake, pinned, exported, hint=hint)
        members: dict[str, Member] = {}
        for artifact in artifacts.values():
            members |= _members_of(lake, artifact)
        members |= members_below(lake.root, record_files(lake.run_directory(run)))
        members |= members_below(scratch, scratch.glob("ref_logprobs/*/*"))
        files = {name: member.facts() for name, member in sorted(members.items())}
        write_json(scratch / EXPORT, {"version": EXPORT_VERSION, "run": run, "files": files})
        paths = {name: member.path for name, member in sorted(members.items())}
        pack({EXPORT: scratch / EXPORT, **paths}, target)
    total = sum(member.num_bytes for member in members.values())
    return Exchange(run, len(artifacts), sum(map(len, exported.values())), total, tuple(left_out))


def _check_target(target: Path) -> None:
    """Refuse a place where no archive can be, before anything is read."""
    with naming_errors(str(target)):
        if target.is_dir():
            raise ConfigError(f"{target} is a directory", hint="name the archive in it, as run.tar")
        if target.exists() and not target.is_file():
            raise ConfigError(f"{target} is no file", hint="name another place")
        nearest = next(path for path in target.parents if path.exists())
        if not nearest.is_dir():
            raise ConfigError(
                f"{nearest} is a file, expected a directory", hint="name another place"
            )
    if nearest == target.parent:
        with claimed_beside(target):
            pass


def _check_exported(
    lake: Lake, artifacts: Iterable[Artifact], exported: Mapping[str, set[str]], *, hint: str
) -> None:
    """Refuse an export without rows that the caches list and cannot give."""
    for artifact in artifacts:
        for name, keys in judged_rows(lake, artifact).items():
            there = exported.get(name, set()) if name else set().union(*exported.values())
            if unread := set(keys) - there:
                raise ArtifactError(
                    f"{len(unread)} of the {len(keys)} reference rows that {artifact.path} rests "
                    f"on lie in damaged parts of ref_logprobs/{name or '*'}",
                    hint=hint,
                )


def import_run(lake: Lake, source: Path, *, name: str = "", allow_code: bool = False) -> Exchange:
    """Bring an exported run into the lake.

    Args:
        lake: Where to.
        source: The archive.
        name: Name that the run gets here; empty keeps its own.
        allow_code: Also a run with code, or with settings that let later commands run some.

    Raises:
        ArtifactError: The archive is not an export, a file of it is missing or changed, or it
            brings code that was not allowed.
        ConfigError: There is no such archive, or the lake has a run of that name.
        RunBusyError: The lake is being cleaned.
    """
    if not source.exists() or source.is_dir():
        what = "is a directory" if source.is_dir() else "does not exist"
        raise ConfigError(f"{source} {what}", hint="name an archive made by grpo lake export")
    if name:
        lake.run_directory(name)
    with lake.in_use(f"import of {source}"), _scratch(lake.root / ".staging") as scratch:
        record = unpack(source, scratch)
        run = name or str(record["run"])
        records = scratch / "runs" / str(record["run"])
        if not allow_code:
            _refuse_code(source, code_in(scratch, records.name))
        staged = sorted(path for path in scratch.glob("artifacts/*/*/*") if path.is_dir())
        check_records(records, {(p.parents[1].name, p.parent.name, p.name) for p in staged})
        final = lake.run_directory(run)
        lock, what = lake.lock_path(f"run-{run}"), f"run name {run!r}"
        with hold_or_refuse(lock, "grpo lake import", what=what, hint=NAME_IN_USE):
            if final.exists():
                raise ConfigError(
                    f"run: the lake has a run called {run!r}", hint="import it with --as NAME"
                )
            artifacts = [_checked(path) for path in staged]
            caches = [_rows_of(path) for path in sorted(scratch.glob("ref_logprobs/*"))]
            left_out = drop_strangers(records)
            num_artifacts = sum(_settle(lake, artifact) for artifact in artifacts)
            num_rows = sum(_import_rows(lake, *rows) for rows in caches)
            _move_records(records, final)
    total = sum(int(entry["bytes"]) for entry in record["files"].values())
    return Exchange(run, num_artifacts, num_rows, total, tuple(left_out))


def _refuse_code(source: Path, found: list[str]) -> None:
    if found:
        raise ArtifactError(
            f"{source} brings code, or settings that let later commands run some: "
            f"{'; '.join(found)}",
            hint="when you trust whoever made it, import it with --allow-code",
        )


def _scratch_for(lake: Lake, target: Path) -> AbstractContextManager[Path]:
    """In the lake, or beside the archive where the lake cannot be written."""
    staging = lake.root / ".staging"
    try:
        staging.mkdir(exist_ok=True)
    except OSError:
        return scratch_beside(target)
    return _scratch(staging) if os.access(staging, os.W_OK) else scratch_beside(target)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """A directory in the lake that goes in the end; one that a killed process left is garbage."""
    path = parent / f".{uuid.uuid4().hex}"
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def latest_pins(lake: Lake, runs: Iterable[str]) -> set[Place]:
    """Places of what the runs use now."""
    return {
        (node["stage"], node["key"], node["content"][:12])
        for run in runs
        for node in read_run(lake.run_directory(run))["nodes"].values()
    }


def _sound_artifacts(
    lake: Lake, run: str, used: set[Place], pins: set[Place]
) -> tuple[dict[Place, Artifact], list[str]]:
    """What a run uses now and used before, hashed anew; and what of the latter is damaged.

    Raises:
        ArtifactError: Something that the run uses now is missing or damaged.
    """
    sound, left_out = {}, []
    for place in sorted(used | pins):
        path = lake.store.key_directory(*place[:2]) / place[2]
        if place not in pins and not path.is_dir():
            continue  # of an earlier attempt, and removed since
        try:
            artifact = lake.store.generation(*place)
            check_files(artifact, FileDigests(None))
        except ArtifactError as error:
            if place in pins:
                raise ArtifactError(
                    f"run {run!r} cannot be exported: {error.message}",
                    hint=f"grpo run --run {run} makes it again",
                ) from error
            left_out.append(f"{path.relative_to(lake.root)}: {error.message}")
        else:
            sound[place] = artifact
    return sound, left_out


def _members_of(lake: Lake, artifact: Artifact) -> dict[str, Member]:
    """Files of an artefact, which were hashed just now."""
    place = artifact.path.relative_to(lake.root).as_posix()
    files = {
        f"{place}/{name}": Member(artifact.path / name, facts["bytes"], facts["sha256"])
        for name, facts in artifact.manifest["files"].items()
    }
    return files | members_below(lake.root, [artifact.path / MANIFEST])


def row_keys(lake: Lake, generations: Iterable[Place]) -> list[str]:
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
            check_stored_values(there, values)
            copy = RefLogprobCache(scratch / "ref_logprobs", cache.fingerprint)
            copy.absorb(there, values, found.scored_by)
            exported[directory.name] = set(there)
            (copy.directory / ".lock").unlink()
    return exported


def _rows_of(directory: Path) -> tuple[Fingerprint, list[str], Found]:
    """All rows of an exported cache, their values checked."""
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
    check_stored_values(keys, values)
    return exported.fingerprint, keys, found


def _import_rows(lake: Lake, fingerprint: Fingerprint, keys: list[str], found: Found) -> int:
    values = [v for v in found.logprobs if v is not None]
    cache = RefLogprobCache(lake.root / "ref_logprobs", fingerprint)
    return cache.absorb(keys, values, found.scored_by)


def _checked(staged: Path) -> Artifact:
    """A generation of the archive, whole, of its key, and without a file that it does not list."""
    artifact = read_artifact(staged)
    check_files(artifact, FileDigests(None))
    if artifact.key != staged.parent.name:
        raise ArtifactError(f"{staged.name} is of key {artifact.key}, not of {staged.parent.name}")
    there = {path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file()}
    if strangers := there - {MANIFEST, *artifact.manifest["files"]}:
        raise ArtifactError(
            f"{staged.name} holds {min(strangers)}, which its manifest does not list"
        )
    return artifact


def _settle(lake: Lake, artifact: Artifact) -> bool:
    """Move one generation into the lake; returns whether it was not there yet."""
    staged = artifact.path
    directory = lake.store.make_key_directory(staged.parent.parent.name, artifact.key)
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
