"""`grpo lake verify`, `gc` and `compact`."""

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from grpo_core.errors import ArtifactError, FileUnreadableError, GrpoError
from grpo_core.store.artifacts import CURRENT, check_files, read_artifact, read_current
from grpo_core.store.catalog import DamagedEntry
from grpo_core.store.exchange import latest_pins, row_keys
from grpo_core.store.file_checks import linked_directory, refuse_links
from grpo_core.store.files import FileDigests, write_text
from grpo_core.store.foreign_caches import find_foreign_caches
from grpo_core.store.lake import NOT_LINKED, Lake
from grpo_core.store.layout import is_generation, is_key
from grpo_core.store.locks import hold_or_refuse
from grpo_core.store.reading import RECOMPUTED, entries_in
from grpo_core.store.ref_claims import FINGERPRINT
from grpo_core.store.ref_index import SUFFIX, orphaned_indices
from grpo_core.store.ref_merges import list_parts, read_replaced
from grpo_core.store.ref_parts import check_part
from grpo_core.store.ref_usage import describe_missing, missing_rows, older_cache, open_cache
from grpo_core.store.run_records import check_records

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")
"""Names that a killed writer leaves behind."""
_OF_A_RUN = re.compile(r"\.(run|config|stop|[0-9]{4,6})\.json\.[0-9a-f]{8}")
"""Those in a run's directory, where people keep files of their own."""
_KEYS, _IN_RUNS = "artifacts/*/*", ("runs/*", "runs/*/attempts")
_SCORED_AGAIN = "grpo lake restore --run {} scores missing reference rows"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was hashed anew.

    Args:
        num_artifacts: Generations, without those behind a linked directory of the lake.
        num_parts: Parts of reference caches.
        damaged: What is damaged, torn, missing or cannot be read.
        older: What is whole and rests on a reference cache of an older version.
    """

    num_artifacts: int
    num_parts: int
    damaged: list[DamagedEntry]
    older: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that no run points to.

    Args:
        path: File or directory, relative to the lake's root.
        num_bytes: Its size.
    """

    path: Path
    num_bytes: int


@contextmanager
def no_run_active(lake: Lake, *, is_reading: bool = False) -> Iterator[None]:
    """Hold the lake alone, so that nothing is staged or published while it is cleaned.

    Args:
        lake: Which.
        is_reading: It is only looked at, which a lake that cannot be written allows too.

    Raises:
        ArtifactError: A directory of the lake is a symbolic link.
        RunBusyError: A run, an import or an export is at work.
    """
    lake.refuse_links()
    path = lake.lock_path("lake")
    with hold_or_refuse(path, "grpo lake gc", what="the lake", is_reading=is_reading):
        yield


def verify(lake: Lake) -> Verified:
    """Hash every file of every artefact anew and decode every part of the reference caches."""
    damaged: list[DamagedEntry] = []
    paths = [p for p in lake.generations() if linked_directory(lake.root, p.parents[1]) is None]
    for path in paths:
        try:
            check_files(read_artifact(path), FileDigests(None))
        except (ArtifactError, FileUnreadableError) as error:
            damaged.append(_damaged(lake, path, path.parent.parent.name, path.parent.name, error))
    damaged += _records_damaged(lake)
    older: list[str] = []
    pins = _readable_pins(lake)
    in_use = set().union(*pins.values())
    damaged += _wrong_pointers(lake, {(key, content) for _, key, content in in_use})
    for stage, key, content in sorted(in_use):
        path = lake.store.key_directory(stage, key) / content
        if not path.is_dir():
            damaged.append(_damaged(lake, path, stage, key, ArtifactError(f"{path} is missing")))
    for path in lake.links():
        link = ArtifactError(f"{path} is a symbolic link, expected a directory", hint=NOT_LINKED)
        damaged.append(_damaged(lake, path, path.parent.name, path.name, link))
    damaged += _rows_lost(lake, pins, older)
    for directory, problem in lake.unclaimed_caches().items():
        path = directory / FINGERPRINT
        damaged.append(_damaged(lake, path, "ref-logp", directory.name, problem))
    num_parts = 0
    for directory in lake.ref_caches():
        names, found = _check_cache(lake, directory)
        num_parts += names
        damaged += found
    return Verified(len(paths), num_parts, damaged, older)


def _check_cache(lake: Lake, directory: Path) -> tuple[int, list[DamagedEntry]]:
    """Number of parts of a reference cache, and those that are damaged."""
    damaged = []
    try:
        orphans = {path.name.removesuffix(SUFFIX) for path in orphaned_indices(directory)}
        names = {*list_parts(directory), *(orphans - read_replaced(directory).keys())}
    except (ArtifactError, FileUnreadableError) as error:
        return 0, [_damaged(lake, directory, "ref-logp", directory.name, error)]
    for name in sorted(names):
        try:
            check_part(directory, name, directory.name)
        except (ArtifactError, FileUnreadableError, FileNotFoundError) as error:
            path = directory / f"{name}.parquet"
            entry = _damaged(lake, path, "ref-logp", directory.name, error)
            damaged.append(
                entry if entry.is_unreadable else replace(entry, hint=_SCORED_AGAIN.format("NAME"))
            )
    return len(names), damaged


def _records_damaged(lake: Lake) -> Iterator[DamagedEntry]:
    """Records of runs that cannot be read; without them nobody knows what a run used."""
    for run in lake.run_names():
        directory = lake.run_directory(run)
        try:
            for path, error in check_records(directory):
                yield _damaged(lake, path, "", run, error)
        except FileUnreadableError as error:
            yield _damaged(lake, directory, "", run, error)


def _readable_pins(lake: Lake) -> dict[str, set[tuple[str, str, str]]]:
    """Run → what it uses now; without runs whose records cannot be read."""
    pins = {}
    for run in lake.run_names():
        with suppress(ArtifactError, FileUnreadableError):
            pins[run] = latest_pins(lake, [run])
    return pins


def find_garbage(lake: Lake, *, with_foreign: bool = False) -> list[Garbage]:
    """What no run pins, and what killed writers left; work in progress is kept.

    A reference cache goes when no run was trained with any of its rows, nothing is in progress, and
    no artefact of a run is damaged.

    Args:
        lake: Where to look.
        with_foreign: Also reference caches of other releases that can go, see `foreign_caches`.

    Raises:
        ArtifactError: The directory of a run is a symbolic link, or a record in it is damaged, so
            nobody knows what the run uses.
    """
    _refuse_linked_runs(lake)
    pinned = {(key, content) for _, key, content in _pinned(lake)}
    paths = [path for path in lake.generations() if (path.parent.name, path.name) not in pinned]
    wrong = _wrong_pointers(lake, pinned)
    paths += [lake.root / entry.path for entry in wrong if not entry.is_unreadable]
    for name in (".trash", ".staging"):
        paths += sorted((lake.root / name).glob("*"))
    paths += _unused_caches(lake)
    for directory in lake.ref_caches():
        paths += [*sorted(directory.glob("damaged-*")), *orphaned_indices(directory)]
        paths += [path for name in read_replaced(directory) for path in directory.glob(f"{name}.*")]
    paths += _temporaries(lake)
    if with_foreign:
        paths += [lake.root / c.path for c in find_foreign_caches(lake) if not c.kept_for]
    return [
        Garbage(path.relative_to(lake.root), _size(path))
        for path in paths
        if linked_directory(lake.root, path.parent) is None
    ]


def remove_garbage(lake: Lake, garbage: list[Garbage]) -> None:
    """Remove what `find_garbage` found; killed at any point, the rest is whole.

    A directory leaves its place in one rename before its files go; of a link only the link goes.

    Raises:
        ArtifactError: Something lies behind a link, out of the lake.
    """
    for item in garbage:
        path = lake.root / item.path
        refuse_links(lake.root, path.parent, hint="nothing out of the lake is removed")
        if path.name == CURRENT:
            if path.parent.is_dir():  # else it went with the last generation of its key
                _point_elsewhere(path.parent, without="")
            continue
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            continue
        if item.path.parts[0] == "artifacts":
            path = _retire(lake, path)
        elif item.path.parts[0] != ".trash":
            path = lake.store.discard(path)
        shutil.rmtree(path)


def _retire(lake: Lake, generation: Path) -> Path:
    """Move a generation to the trash, its key with the last one; CURRENT names one that stays."""
    directory = generation.parent
    known = (CURRENT, generation.name)
    others = (p for p in directory.glob("[!.]*") if p.name not in known and not p.is_symlink())
    if not any(others):
        return lake.store.discard(directory)
    with suppress(ArtifactError):  # a damaged CURRENT is an item of its own
        if read_current(directory) == generation.name:
            _point_elsewhere(directory, without=generation.name)
    return lake.store.discard(generation)


def _point_elsewhere(directory: Path, *, without: str) -> None:
    """Let CURRENT of a key name the newest other generation; with none, there is no CURRENT."""
    others = _generations_in(directory, without=without)
    if others:
        write_text(directory / CURRENT, others[-1].name + "\n")
    else:
        (directory / CURRENT).unlink(missing_ok=True)


def _generations_in(directory: Path, *, without: str) -> list[Path]:
    """Generations of a key but one, oldest first."""
    names = (p for p in directory.iterdir() if is_generation(p) and p.name != without)
    found = (path for path in names if path.is_dir() and not path.is_symlink())
    return sorted(found, key=lambda path: path.stat().st_mtime)


def compact(lake: Lake) -> list[tuple[str, int, int]]:
    """Merge the parts of every reference cache; (fingerprint, parts before, parts after)."""
    return [(path.name, *open_cache(path).compact()) for path in lake.ref_caches()]


def _pinned(lake: Lake) -> set[tuple[str, str, str]]:
    """(stage, key, name of the generation) of everything that an attempt of a run used."""
    pinned = set()
    for run in lake.run_names():
        try:
            rows = lake.rows_of(run)
        except ArtifactError as error:
            raise ArtifactError(
                f"what run {run!r} uses is not known, so nothing is removed: {error.message}",
                hint=error.hint,
            ) from error
        pinned |= {(row.stage, row.key, row.content[:12]) for row in rows}
    return pinned


def _unused_caches(lake: Lake) -> list[Path]:
    if any(path.is_dir() for path in entries_in(lake.root / "partial" / "train")):
        return []
    there = [
        (stage, key, content)
        for stage, key, content in _pinned(lake)
        if (lake.store.key_directory(stage, key) / content).is_dir()
    ]
    try:
        keys = row_keys(lake, there)
    except (ArtifactError, FileUnreadableError):  # nobody knows which rows a damaged artefact names
        return []

    def is_unused(path: Path) -> bool:
        return len(open_cache(path).missing(keys)) == len(keys)

    return [path for path in lake.ref_caches() if is_unused(path)]


def _wrong_pointers(lake: Lake, pinned: set[tuple[str, str]]) -> Iterator[DamagedEntry]:
    """Every CURRENT that is empty or names a generation that is not there and that no run pins."""
    pointers = lake.root.glob(f"artifacts/*/*/{CURRENT}")
    for pointer in sorted(path for path in pointers if is_key(path.parent)):
        stage, key = pointer.parents[1].name, pointer.parent.name
        try:
            name = read_current(pointer.parent)
            is_there = (pointer.parent / name).is_dir() or (pointer.parent.name, name) in pinned
            if not is_there:
                raise ArtifactError(f"{pointer} names {name}, which is missing", hint=RECOMPUTED)
        except (ArtifactError, FileUnreadableError) as error:
            yield _damaged(lake, pointer, stage, key, error)


def _rows_lost(
    lake: Lake, pins: Mapping[str, set[tuple[str, str, str]]], older: list[str]
) -> Iterator[DamagedEntry]:
    """By run, the artefacts whose reference rows no cache has; fills `older` on the way."""
    for run, used in pins.items():
        for stage, key, content in sorted(used):
            try:
                artifact = lake.store.generation(stage, key, content)
                missing = missing_rows(lake, artifact)
            except (ArtifactError, FileUnreadableError):  # `verify` has named it
                continue
            path = str(artifact.path.relative_to(lake.root))
            if cache := older_cache(artifact):
                older.append(f"run {run!r}: {path} is whole; its reference rows are in {cache}")
            for fingerprint, keys in missing.items():
                reason = f"run {run!r}: {describe_missing(artifact, fingerprint, keys)}"
                yield DamagedEntry(stage, key, path, reason, _SCORED_AGAIN.format(run))


def _refuse_linked_runs(lake: Lake) -> None:
    hint = "what this run uses is not known, so nothing is removed: put the directory there"
    for path in entries_in(lake.root / "runs"):
        refuse_links(lake.root, path, hint=hint)


def _temporaries(lake: Lake) -> list[Path]:
    places = (_KEYS, *_IN_RUNS, "ref_logprobs/*", ".digests")
    files = sorted(
        path
        for place in places
        for path in lake.root.glob(f"{place}/.*")
        if path.is_file()
        and (_OF_A_RUN if place in _IN_RUNS else _TEMPORARY).fullmatch(path.name)
        and (place != _KEYS or is_key(path.parent))
    )
    return [*files, *sorted(lake.root.glob(f".{lake.database.name}.*"))]


def _damaged(lake: Lake, path: Path, stage: str, key: str, error: Exception) -> DamagedEntry:
    place = str(path.relative_to(lake.root))
    if not isinstance(error, GrpoError):
        return DamagedEntry(stage, key, place, f"{path} is missing")
    hint = "" if error.hint == RECOMPUTED else error.hint
    is_unreadable = isinstance(error, FileUnreadableError)
    return DamagedEntry(stage, key, place, error.message, hint, is_unreadable)


def _size(path: Path) -> int:
    if path.is_symlink():
        return 0
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
