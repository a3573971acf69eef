"""What the maker of an artefact is given, and what it gives back."""

import dataclasses
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.planning.graph import Node
from grpo_core.policy.origins import Scorer
from grpo_core.stages.alerts import Alert
from grpo_core.stages.stopping import asked_to_stop, stop_if_asked
from grpo_core.stages.unit_watch import UnitWatch
from grpo_core.store.artifacts import Artifact
from grpo_core.store.lake import Lake
from grpo_core.store.partials import Partial
from grpo_core.store.progress import ProgressLog
from grpo_core.store.schemas import TIMINGS


@dataclass
class Timed:
    """One timed part; add the tokens that it generated."""

    tokens: int = 0


@dataclass
class Timings:
    """Where seconds and tokens of one artefact went, by part.

    Args:
        partial: Keeps them in case that the attempt is killed; earlier attempts' are taken over.
    """

    partial: Partial
    total_tokens: int = 0
    """Tokens that this attempt generated."""

    def __post_init__(self) -> None:
        self.seconds, self.tokens = self.partial.read_timings()

    @contextmanager
    def part(self, name: str) -> Iterator[Timed]:
        """Time a part; repeated parts of one name add up."""
        started, timed = time.perf_counter(), Timed()
        try:
            yield timed
        finally:
            elapsed = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
            self.tokens[name] = self.tokens.get(name, 0) + timed.tokens
            self.total_tokens += timed.tokens
            self.partial.write_timings(self.seconds, self.tokens)

    def table(self) -> pa.Table:
        """The side table `timings`."""
        now, host = datetime.now(UTC), socket.gethostname()
        rows = [
            {"part": part, "seconds": seconds, "tokens": self.tokens[part]}
            | {"recorded_at": now, "host": host}
            for part, seconds in self.seconds.items()
        ]
        return pa.Table.from_pylist(rows, schema=TIMINGS.schema)


@dataclass(frozen=True)
class MakeContext:
    """Everything that the maker of one artefact may use.

    Args:
        config: The resolved configuration.
        lake: The lake.
        node: What to make.
        key: Its key.
        inputs: Role → artefact.
        partial: Work in progress of an earlier attempt, and of this one.
        progress: Where to report.
        timings: Where seconds and tokens are counted.
        run: Name of the run.
        attempt: Its attempt.
        is_forced: The artefact is made again although it was there.
        fork: The fork record of the attempt, when the run starts from another run's state.
        watch: Hears of every finished unit.
    """

    config: RunConfig
    lake: Lake
    node: Node
    key: str
    inputs: Mapping[str, Artifact]
    partial: Partial
    progress: ProgressLog
    timings: Timings
    run: str
    attempt: int
    is_forced: bool
    fork: Mapping[str, Any] | None
    watch: UnitWatch

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether the next `report` may end the work; what should survive is saved before it."""
        return asked_to_stop(self.progress.path.parent) is not None

    @property
    def scorer(self) -> Scorer:
        """Who asks for reference log-probs."""
        return Scorer(self.run, self.attempt, self.node.label, self.key, self.is_forced)

    def report(
        self, done: int, total: int, unit: str, figures: dict[str, float] | None = None
    ) -> None:
        """Report that `done` of `total` units are finished and saved.

        Raises:
            RunStoppedError: The run was asked to stop, and more units would follow.
        """
        self.watch.finished(done, total, unit)
        self.progress.progress(
            stage=self.node.stage,
            label=self.node.label,
            done=done,
            total=total,
            unit=unit,
            tokens=self.timings.total_tokens,
            figures=figures,
        )
        if done < total:
            stop_if_asked(self.progress.path.parent)

    def alert(self, alert: Alert) -> None:
        """Tell people, and whoever listens to alerts, that a figure left its healthy range."""
        self.progress.emit(
            "alert", stage=self.node.stage, label=self.node.label, **dataclasses.asdict(alert)
        )

    def note(self, text: str) -> None:
        """Tell people something once."""
        self.progress.emit("note", stage=self.node.stage, label=self.node.label, text=text)


@dataclass(frozen=True, slots=True)
class Made:
    """What a maker gives back; see `Draft` for the meaning of each part."""

    tables: Mapping[str, pa.Table]
    directories: Mapping[str, Path] = field(default_factory=dict)
    side_directories: Mapping[str, Path] = field(default_factory=dict)
    aspects: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
