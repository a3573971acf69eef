"""Work in progress: immutable unit files that a killed run leaves behind and the next one reads.

```
partial/<stage>/<key>/<table>/unit-000012.parquet
partial/<stage>/<key>/state-000012/                 a resumable training state
partial/<stage>/<key>/timings.json                  seconds and tokens spent so far
partial/<stage>/<key>.run                           run that works on the key
partial/<stage>/<key>.forced                        all of it was made by a forced stage
```

A unit file is complete or absent (temporary name, fsync, rename), so nothing appears twice: the
next run redoes whole units only.
"""

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from grpo_core.errors import ArtifactError
from grpo_core.store.content import conform
from grpo_core.store.files import (
    fsync_directory,
    fsync_file,
    link_or_copy,
    read_json,
    write_json,
    write_text,
)
from grpo_core.store.parquet import read_parts, write_part
from grpo_core.store.reading import entries_in, reading
from grpo_core.store.schemas import TABLES

_WORKER, _FORCED, _TIMINGS = ".run", ".forced", "timings.json"

logger = logging.getLogger(__name__)


class Partial:
    """The partial directory of one key.

    Args:
        directory: `lake/partial/<stage>/<key>`.
        key: Full key, stamped into the unit files.
    """

    def __init__(self, directory: Path, key: str) -> None:
        self.directory = directory
        self.key = key

    def claim(self, run: str) -> None:
        """Note who works here, for views of phases in progress."""
        write_text(self.directory.with_suffix(_WORKER), run + "\n")

    def start_forced(self) -> None:
        """Drop work in progress that was not forced; what a forced attempt left is gone on with."""
        if not self.is_forced:
            self.remove()
            write_text(self.directory.with_suffix(_FORCED), "")

    @property
    def is_forced(self) -> bool:
        """Whether the work in progress was begun by a forced stage."""
        return self.directory.with_suffix(_FORCED).exists()

    def units(self, table: str) -> list[int]:
        """Numbers of the complete units, ascending."""
        return sorted(
            int(path.stem.removeprefix("unit-"))
            for path in entries_in(self.directory / table)
            if path.name.startswith("unit-") and path.suffix == ".parquet"
        )

    def unit_path(self, table: str, unit: int) -> Path:
        """Path of one unit file."""
        return self.directory / table / f"unit-{unit:06d}.parquet"

    def has(self, table: str, unit: int) -> bool:
        """Whether the unit is complete and readable; a damaged one is removed and redone."""
        path = self.unit_path(table, unit)
        if not path.is_file():
            return False
        try:
            self.read(table, unit)
        except ArtifactError:
            path.unlink()
            return False
        return True

    def write(self, table: str, unit: int, rows: pa.Table) -> None:
        """Write one unit."""
        spec = TABLES[table]
        write_part(self.unit_path(table, unit), conform(rows, spec), spec, key=self.key, part=unit)

    def read(self, table: str, unit: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read one unit, or some of its columns."""
        return read_parts([self.unit_path(table, unit)], TABLES[table], columns=columns)

    def read_all(self, table: str) -> pa.Table:
        """Read every unit, in order."""
        paths = [self.unit_path(table, unit) for unit in self.units(table)]
        return read_parts(paths, TABLES[table])

    def write_directory(self, name: str, write: Callable[[Path], None]) -> Path:
        """Let `write` fill a directory and rename it into place when it is complete."""
        final = self.directory / name
        temporary = self.directory / f".{name}.{uuid.uuid4().hex[:8]}"
        temporary.mkdir(parents=True)
        try:
            write(temporary)
            for path in temporary.rglob("*"):
                if path.is_file():
                    fsync_file(path)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        fsync_directory(self.directory)
        return final

    def link_directory(self, name: str, parts: Mapping[str, Path]) -> Path:
        """Make a directory out of immutable ones, by hard links where possible."""

        def write(directory: Path) -> None:
            for part, source in parts.items():
                shutil.copytree(source, directory / part, copy_function=link_or_copy)

        return self.write_directory(name, write)

    def directories(self, prefix: str) -> dict[int, Path]:
        """Complete directories `<prefix>-<number>`, by number."""
        return {
            int(path.name.removeprefix(f"{prefix}-")): path
            for path in entries_in(self.directory)
            if path.name.startswith(f"{prefix}-") and path.is_dir()
        }

    def write_timings(self, seconds: Mapping[str, float], tokens: Mapping[str, int]) -> None:
        """Keep what was spent so far, so that a killed attempt's share is not lost."""
        write_json(self.directory / _TIMINGS, {"seconds": dict(seconds), "tokens": dict(tokens)})

    def read_timings(self) -> tuple[dict[str, float], dict[str, int]]:
        """Seconds and tokens by part that earlier attempts spent; none when no record says so."""
        path = self.directory / _TIMINGS
        try:
            with reading(path):
                record = read_json(path)
            return dict(record["seconds"]), dict(record["tokens"])
        except FileNotFoundError:
            return {}, {}
        except (ArtifactError, TypeError, KeyError):
            logger.warning("%s is damaged: what earlier attempts spent is not counted", path)
            return {}, {}

    def exists(self) -> bool:
        """Whether any work was left."""
        return self.directory.is_dir() and any(
            path.name != _TIMINGS for path in self.directory.iterdir()
        )

    def remove(self) -> None:
        """Drop the work in progress, after publishing or before a forced start."""
        shutil.rmtree(self.directory, ignore_errors=True)
        for suffix in (_WORKER, _FORCED):
            self.directory.with_suffix(suffix).unlink(missing_ok=True)


def worker(directory: Path) -> str | None:
    """Name of the run that worked last in a partial directory."""
    path = directory.with_suffix(_WORKER)
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None
