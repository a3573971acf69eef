"""One attempt of a run: its lock, its records, its progress."""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from grpo_core.config import RunConfig, stored_config
from grpo_core.config.checks import check_engine, config_warnings
from grpo_core.errors import GrpoError, RunStoppedError
from grpo_core.models.context import check_budgets
from grpo_core.paths import resolve_path
from grpo_core.planning.externals import digest_externals, model_directory
from grpo_core.planning.graph import ForkPoint, Graph, build_graph
from grpo_core.stages.attempt_log import attempt_log, logging_to
from grpo_core.stages.devices import check_device, check_device_memory
from grpo_core.stages.faults import machine_fault, machine_faults_named
from grpo_core.stages.records import RunRecords
from grpo_core.stages.stopping import forget_stop
from grpo_core.store.files import write_json
from grpo_core.store.lake import Lake
from grpo_core.store.locks import NAME_IN_USE, hold_or_refuse
from grpo_core.store.progress import ProgressLog
from grpo_core.store.run_mending import mend_attempts
from grpo_core.store.run_records import attempt_file, read_attempt
from grpo_core.types import StageName

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunSession:
    """A run that is being worked on; stages attach to it by its directory.

    Args:
        directory: `lake/runs/<run>`.
        config: The resolved configuration.
        request: What the attempt was asked to do.
        attempt: Its number, from 1.
    """

    directory: Path
    config: RunConfig
    request: dict[str, Any]
    attempt: int

    @classmethod
    @contextmanager
    def open(
        cls,
        config: RunConfig,
        *,
        root: Path,
        run: str,
        stages: Sequence[StageName] = tuple(StageName),
        force: Sequence[StageName] = (),
        fork: ForkPoint | None = None,
        flow_run: str = "",
    ) -> Iterator["RunSession"]:
        """Hold the run's name and record one attempt around the work inside.

        Raises:
            RunBusyError: Another process works under this name.
            ConfigError: The name is not a run name, its engine or device is not there, a budget
                exceeds the model's context, or the model does not fit the device.
            ArtifactError: Run.json and the record of an attempt are damaged.
            DiskFullError: What the attempt writes of itself has no room.
        """
        lake = Lake(root)
        directory = lake.run_directory(run)
        who = f"run {run!r}, flow run {flow_run or 'none'} on {socket.gethostname()}"
        lock = lake.lock_path(f"run-{run}")
        on_wait = partial(_say_waiting, directory, stages[0])
        held = hold_or_refuse(lock, who, what=f"run name {run!r}", hint=NAME_IN_USE)
        with machine_faults_named(), held:
            forget_stop(directory)  # what comes from here on is meant for this attempt
            with lake.in_use(who, on_wait=on_wait):
                (directory / "logs").mkdir(parents=True, exist_ok=True)
                request = {
                    "stages": [stage.value for stage in stages],
                    "force": [stage.value for stage in force],
                    "fork": _fork_record(fork),
                    "flow_run": flow_run,
                    "pid": os.getpid(),
                }
                write_json(directory / "config.json", config.model_dump(mode="json"))
                check_device(config, stages)  # first: without a GPU nobody wants the engine
                check_engine(config)
                policy = model_directory(config.model.path)
                check_budgets(config, policy)
                check_device_memory(config, stages, policy)
                graph = build_graph(config, digest_externals(config, lake.digests), fork)
                labels = {node.label for node in graph.nodes}
                mended = mend_attempts(directory)
                attempt = RunRecords(directory).begin(request, labels)
                session = cls(directory, config, request, attempt)
                with logging_to(session.log):
                    yield from session._recorded(mended)

    @classmethod
    def attach(cls, directory: Path) -> "RunSession":
        """The attempt in progress below a run's directory."""
        config = stored_config(directory)
        attempt = int(RunRecords(directory).latest["attempt"])
        record = read_attempt(attempt_file(directory, attempt))
        return cls(directory, config, record["request"], attempt)

    @property
    def run(self) -> str:
        """Run name."""
        return self.directory.name

    @property
    def lake(self) -> Lake:
        """The lake that the run lies in."""
        return Lake(self.directory.parents[1])

    @property
    def records(self) -> RunRecords:
        """The run's records."""
        return RunRecords(self.directory)

    @property
    def progress(self) -> ProgressLog:
        """The run's progress log."""
        return ProgressLog(self.directory / "progress.jsonl")

    @property
    def log(self) -> Path:
        """The attempt's raw log."""
        return attempt_log(self.directory, self.attempt)

    @property
    def forced(self) -> frozenset[StageName]:
        """Stages to compute although they are there."""
        return frozenset(StageName(stage) for stage in self.request["force"])

    def graph(self) -> Graph:
        """The DAG of the run, its outside digested now."""
        fork = self.request["fork"]
        return build_graph(
            self.config,
            digest_externals(self.config, self.lake.digests),
            ForkPoint(**fork) if fork else None,
        )

    def _recorded(self, mended: Sequence[str]) -> Iterator["RunSession"]:
        progress = self.progress
        started = {key: self.request[key] for key in ("stages", "force", "flow_run")}
        progress.emit("run_started", run=self.run, attempt=self.attempt, **started)
        for text in mended:
            logger.warning(text)
            progress.emit("note", stage=self.request["stages"][0], label="records", text=text)
        for warning in config_warnings(self.config):
            progress.emit("note", stage=self.request["stages"][0], label="config", text=warning)
        state, error = "Stopped", ""
        try:
            yield self
            state = "Completed"
        except RunStoppedError as stop:
            error = str(stop)
            raise
        except GrpoError as failure:
            state, error = "Failed", str(failure)
            raise
        except Exception as failure:
            state = "Failed"
            error = str(machine_fault(failure) or f"{type(failure).__name__}: {failure}")
            raise
        finally:
            self._close(state, error)

    def _close(self, state: str, error: str) -> None:
        """Record how the attempt ended; when that fails, why it ended still gets through."""
        end = {"run": self.run, "attempt": self.attempt, "state": state, "error": error}
        try:
            try:
                self.records.finish(state, error)
            finally:
                self.progress.emit("run_finished", **end)
        except OSError as fault:
            if state == "Completed":
                raise
            logger.error("the attempt ended (%s), which could not be recorded: %s", state, fault)


def lake_root(config: RunConfig) -> Path:
    """Absolute root of the configured lake."""
    return resolve_path(config.execution.lake)


def _say_waiting(directory: Path, stage: StageName, holder: str) -> None:
    text = f"waiting for {holder}, which has the lake alone"
    logger.warning(text)
    directory.mkdir(parents=True, exist_ok=True)
    ProgressLog(directory / "progress.jsonl").emit("note", stage=stage, label="lake", text=text)


def _fork_record(fork: ForkPoint | None) -> dict[str, Any] | None:
    return None if fork is None else asdict(fork)
