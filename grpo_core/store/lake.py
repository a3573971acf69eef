"""The lake: where everything lies below one root directory that can be moved as a whole."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from grpo_core.errors import ArtifactError, ConfigError
from grpo_core.store.artifacts import (
    Artifact,
    ArtifactStore,
    check_files,
    read_artifact,
    read_current,
)
from grpo_core.store.catalog import Catalog, CatalogEntry, DamagedEntry, RunArtifact, parts_in_use
from grpo_core.store.file_checks import linked_directory, refuse_links
from grpo_core.store.files import FileDigests, glob_stable
from grpo_core.store.layout import DATABASE, TREES, is_generation, is_lake
from grpo_core.store.locks import share
from grpo_core.store.partials import Partial, worker
from grpo_core.store.reading import entries_in
from grpo_core.store.ref_claims import FINGERPRINT, read_fingerprint
from grpo_core.store.ref_merges import list_parts
from grpo_core.store.ref_parts import ends_as_parquet
from grpo_core.store.ref_rows import CACHE_VERSION, cache_version_of, fingerprint_of
from grpo_core.store.run_records import NODE_FIELDS, attempt_files, is_run, read_attempt, read_run

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TREES = (*TREES, "artifacts/*", "ref_logprobs/*")
NOT_LINKED = "only the root of a lake may be a link: put the directory itself there"
_LIVE_TABLES = ("rollouts", "steps", "events")


class Lake:
    """Paths, artefacts and the catalog of one lake.

    Args:
        root: Root directory; made when first written to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = ArtifactStore(root)

    @property
    def digests(self) -> FileDigests:
        """Remembered digests of files, inside the lake and outside."""
        return self.store.digests

    @property
    def database(self) -> Path:
        """DuckDB file with views for other clients; disposable."""
        return self.root / DATABASE

    def is_one(self) -> bool:
        """Whether the root is a lake's; see `layout.is_lake`.

        Raises:
            FileUnreadableError: The system does not let it be listed.
        """
        return is_lake(self.root)

    def run_directory(self, run: str) -> Path:
        """Directory of a run.

        Raises:
            ArtifactError: It is a symbolic link.
            ConfigError: The name has separators, dots or spaces, or is too long.
        """
        if not is_run_name(run):
            raise ConfigError(
                f"run: {run!r} is not a run name",
                hint="use letters, digits, - and _, at most 64, starting with a letter or digit",
            )
        directory = self.root / "runs" / run
        refuse_links(self.root, directory, hint=NOT_LINKED)
        return directory

    def links(self) -> list[Path]:
        """Directories of the lake that are symbolic links: what lies behind them is not the lake's.

        Linked generations are left to `read_artifact`.
        """
        patterns = (*_TREES, "artifacts/*/*", "runs/*")
        return sorted(
            path for pattern in patterns for path in self.root.glob(pattern) if path.is_symlink()
        )

    def refuse_links(self) -> None:
        """Refuse a lake whose own directories lead out of it.

        Raises:
            ArtifactError: Names the first that is a symbolic link.
        """
        for pattern in _TREES:
            for path in self.root.glob(pattern):
                refuse_links(self.root, path, hint=NOT_LINKED)

    def existing_run(self, run: str) -> Path:
        """Directory of a run that is there.

        Raises:
            ConfigError: There is no such run.
        """
        directory = self.run_directory(run)
        if not is_run(directory):
            known = ", ".join(self.run_names()) or "none yet"
            raise ConfigError(f"run: there is no run called {run!r}", hint=f"runs: {known}")
        return directory

    def lock_path(self, name: str) -> Path:
        """Lock file of a key or run."""
        return self.root / "locks" / f"{name}.lock"

    def in_use(
        self,
        holder: str,
        *,
        on_wait: Callable[[str], None] | None = None,
        is_reading: bool = False,
    ) -> AbstractContextManager[None]:
        """Keep `grpo lake gc` away while something is written; see `locks.share`.

        Raises:
            ArtifactError: A directory of the lake is a symbolic link.
        """
        self.refuse_links()
        path = self.lock_path("lake")
        return share(path, holder, what="the lake", on_wait=on_wait, is_reading=is_reading)

    def partial(self, stage: str, key: str) -> Partial:
        """Work in progress on a key."""
        return Partial(self.root / "partial" / stage / key, key)

    def run_names(self) -> list[str]:
        """Names of all runs, sorted; a linked directory is none.

        Raises:
            FileUnreadableError: The system does not let the directory of runs be listed.
        """
        return sorted(
            path.name
            for path in entries_in(self.root / "runs")
            if is_run_name(path.name) and linked_directory(self.root, path) is None and is_run(path)
        )

    def linked_runs(self) -> list[str]:
        """Names of runs whose directory, or that of all runs, is a symbolic link, sorted.

        Raises:
            FileUnreadableError: The system does not let the directory of runs be listed.
        """
        paths = (path for path in entries_in(self.root / "runs") if is_run_name(path.name))
        linked = (path for path in paths if linked_directory(self.root, path) is not None)
        return [path.name for path in linked if not stat.S_ISREG(os.lstat(path).st_mode)]

    def generations(self) -> Iterator[Path]:
        """Directory of every generation of every artefact; what is called otherwise is none.

        Raises:
            FileUnreadableError: The system does not let a directory above them be listed.
        """
        for stage in entries_in(self.root / "artifacts"):
            for key in entries_in(stage):
                yield from (p for p in entries_in(key) if is_generation(p) and p.is_dir())

    def generations_of(self, stage: str) -> Iterator[Path]:
        """Directory of every complete generation of one stage."""
        for path in self.generations():
            if path.parent.parent.name == stage and (path / "manifest.json").is_file():
                yield path

    def catalog(self, run: str | None = None, *, is_hashed: bool = False) -> Catalog:
        """What views are built from; with `run`, only what that run uses.

        A damaged artefact is left out, and of a whole lake a run whose records are; both are named
        in `damaged`.

        Args:
            run: Run name; None takes the whole lake.
            is_hashed: Compare the sha256 of every file with its manifest, and not only of Parquet
                files that changed since they were hashed; one that did not change is not read.

        Raises:
            ArtifactError: A directory of the lake is a symbolic link, or a record of `run` is
                damaged.
            ConfigError: There is no such run.
            FileUnreadableError: The system does not let a file be read.
        """
        self.refuse_links()
        damaged: list[DamagedEntry] = []
        if run is not None:
            self.existing_run(run)
            rows = self.rows_of(run)
        else:
            rows = list(self._rows_of_all(damaged))
        wanted = {(row.key, row.content) for row in rows} if run else None
        entries: list[CatalogEntry] = []
        for path in self._generation_paths(rows, is_whole=run is None):
            self._add_entry(path, wanted, entries, damaged, is_hashed=is_hashed)
        parts = tuple(self._ref_parts())
        return Catalog(
            entries=tuple(entries),
            damaged=tuple(damaged),
            run_artifacts=tuple(rows),
            live_files=self._live_files(run),
            ref_parts=parts_in_use(entries, parts) if run else parts,
        )

    def _generation_paths(self, rows: list[RunArtifact], *, is_whole: bool) -> list[Path]:
        """What runs use now, there or not; of a whole lake what is there, else what they used."""
        latest: dict[str, int] = {}
        for row in rows:
            latest[row.run] = max(row.attempt, latest.get(row.run, 0))
        used = (self._path_of(row) for row in rows if row.attempt == latest[row.run])
        if is_whole:
            return list(dict.fromkeys([*self.generations(), *used]))
        there = (path for path in map(self._path_of, rows) if path.is_symlink() or path.exists())
        return sorted({*there, *used})

    def _path_of(self, row: RunArtifact) -> Path:
        return self.store.key_directory(row.stage, row.key) / row.content[:12]

    def _add_entry(
        self,
        path: Path,
        wanted: set[tuple[str, str]] | None,
        entries: list[CatalogEntry],
        damaged: list[DamagedEntry],
        *,
        is_hashed: bool,
    ) -> None:
        stage, key = path.parent.parent.name, path.parent.name
        try:
            artifact = read_artifact(path)
            check_files(artifact, self.digests, is_every_file_hashed=is_hashed)
            entry = _entry(artifact, stage)
        except ArtifactError as error:
            damaged.append(
                DamagedEntry(stage, key, str(path.relative_to(self.root)), error.message)
            )
            return
        if wanted is None or (artifact.key, artifact.content) in wanted:
            entries.append(entry)

    def _rows_of_all(self, damaged: list[DamagedEntry]) -> Iterator[RunArtifact]:
        """What every run used; fills `damaged` with runs of which nobody knows it."""
        for name in sorted([*self.run_names(), *self.linked_runs()]):
            try:
                yield from self.rows_of(name)
            except ArtifactError as error:
                damaged.append(DamagedEntry("", name, f"runs/{name}", error.message, error.hint))

    def rows_of(self, run: str) -> list[RunArtifact]:
        """What a run used, attempt by attempt.

        Raises:
            ArtifactError: A record of the run is damaged.
            FileUnreadableError: The system does not let one be read.
        """
        directory = self.run_directory(run)
        latest = read_run(directory)
        attempts = [read_attempt(path) for path in attempt_files(directory)]
        rows = [_run_row(run, a["attempt"], node) for a in attempts for node in a["nodes"]]
        touched = {row.label for row in rows if row.attempt == latest["attempt"]}
        carried = [
            _run_row(run, latest["attempt"], {**node, "state": "Reused", "seconds": 0, "tokens": 0})
            for label, node in latest["nodes"].items()
            if label not in touched
        ]
        return rows + carried

    def _live_files(self, run: str | None) -> dict[str, tuple[Path, ...]]:
        files = {
            table: glob_stable(self.root / "partial", f"*/*/{table}/unit-*.parquet")
            for table in _LIVE_TABLES
        }
        return {
            table: tuple(path for path in paths if run in (None, worker(path.parents[1])))
            for table, paths in files.items()
        }

    def _ref_parts(self) -> Iterator[Path]:
        """Parts of the reference caches that end as Parquet files do; a torn one is left out."""
        for directory in self.ref_caches():
            for name in list_parts(directory):
                path = directory / f"{name}.parquet"
                if ends_as_parquet(path):
                    yield path

    def ref_caches(self) -> list[Path]:
        """Directories of the reference caches that this release reads."""
        return [path for path, is_own in self._classified() if is_own is True]

    def foreign_caches(self) -> list[Path]:
        """Directories of reference caches of another release; they are left alone."""
        return [path for path, is_own in self._classified() if is_own is False]

    def unclaimed_caches(self) -> dict[Path, ArtifactError]:
        """Directories of reference caches whose `fingerprint.json` is damaged or missing → how."""
        return {
            path: is_own for path, is_own in self._classified() if isinstance(is_own, ArtifactError)
        }

    def _classified(self) -> Iterator[tuple[Path, bool | ArtifactError]]:
        """Cache directories, and whether they are of this release or what hinders knowing it."""
        for path in self._cache_directories():
            try:
                yield path, read_fingerprint(path) is not None
            except ArtifactError as error:
                yield path, error

    def _cache_directories(self) -> list[Path]:
        """Directories of reference caches; a linked one is none."""
        return [
            directory
            for directory in entries_in(self.root / "ref_logprobs")
            if linked_directory(self.root, directory) is None
            and any(
                path.name == FINGERPRINT or path.name.startswith("part-")
                for path in entries_in(directory)
            )
        ]


def is_run_name(run: str) -> bool:
    """Whether a run may have this name, which is that of its directory."""
    return _RUN_NAME.fullmatch(run) is not None


def _entry(artifact: Artifact, stage: str) -> CatalogEntry:
    payload = artifact.manifest["payload"]
    return CatalogEntry(
        kind=str(artifact.manifest["kind"]),
        stage=stage,
        key=artifact.key,
        content=artifact.content,
        is_current=read_current(artifact.path.parent) == artifact.path.name,
        tables={name: tuple(artifact.files(name)) for name in artifact.manifest["tables"]},
        ref_fingerprint=fingerprint_of(payload),
        has_older_cache=cache_version_of(payload) != CACHE_VERSION,
    )


def _run_row(run: str, attempt: int, node: dict[str, Any]) -> RunArtifact:
    return RunArtifact(run=run, attempt=attempt, **{k: node[k] for k in NODE_FIELDS})
