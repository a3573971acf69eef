"""A clean copy of the project with its own server, runner and lake, as a new user has it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flows.api import ApiClient, FlowRun
from flows.following import run_lock
from flows.local import BUSY_SECONDS
from flows.processes import ProcessRecord, birth_of, descendants, kill, read_record, wait_gone
from flows.project import Project
from flows.server import client_of, find_server, log_tail
from grpo_core.store.progress import read_events

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("flows", "grpo_core", "sql", "data", "prefect.toml", "prefect.yaml")

LONG = "train.phases.0.max_steps=6000"
"""Enough steps to be interrupted long before the end."""

MINI = (
    "prompts.train_limit=16",
    "prompts.test_limit=8",
    "prompts.validation_limit=4",
    "prefilter.samples_per_prompt=8",
    "prefilter.prompts_per_unit=4",
    "sampling.rows_per_batch=64",
    "train.group_size=4",
    "train.prompts_per_rollout=4",
    "train.validation_samples=2",
    "train.phases.0.max_steps=6",
    "train.phases.1.max_steps=2",
    "train.phases.2.max_steps=2",
    "evaluate.samples_per_prompt=8",
    "execution.threads=1",
    "execution.checkpoint_every_steps=2",
)
"""The tiny preset made small: every stage and phase, seconds each."""


@dataclass(frozen=True)
class Checkout:
    """A copy of the project, and how to call its commands."""

    project: Project
    mini: tuple[str, ...] = MINI
    long: str = LONG
    lake_name: str = "lake"

    @property
    def lake(self) -> Path:
        return self.project.root / self.lake_name

    def in_lake(self, name: str) -> "Checkout":
        """The same whose runs go into a lake of their own, which nobody else's have filled."""
        lake = self.project.root / name
        return replace(self, mini=(*self.mini, f"execution.lake={lake}"), lake_name=name)

    @contextmanager
    def up(self) -> Iterator[None]:
        """Server and runner; at the end `grpo down` must leave no process of theirs."""
        try:
            started = self.grpo("up")
            assert started.returncode == 0, (
                f"{started.stderr}\n{log_tail(self.project, 'server', 60)}"
            )
            yield
        finally:
            records = [read_record(self.project.record(name)) for name in ("server", "runner")]
            family = [record for record in records if record is not None]
            family += [child for record in list(family) for child in descendants(record.pid)]
            down = self.grpo("down")
        assert down.returncode == 0, down.stderr
        assert wait_gone(family, 60), "a process outlived `grpo down`"

    def grpo(self, *words: str, timeout: float = 400) -> subprocess.CompletedProcess[str]:
        return self._call(sys.executable, "-m", "flows.cli", *words, timeout=timeout)

    def prefect(self, *words: str, timeout: float = 400) -> subprocess.CompletedProcess[str]:
        return self._call(str(Path(sys.executable).with_name("prefect")), *words, timeout=timeout)

    @property
    def client(self) -> ApiClient:
        """A client of the server that runs now, patient with a busy machine."""
        server = find_server(self.project)
        assert server is not None
        return client_of(self.project, server).patient(BUSY_SECONDS)

    def flow_run(self, run: str, lake: Path | None = None) -> FlowRun:
        """The flow run of the latest attempt, as the server has it."""
        return self.client.read_flow_run(self.latest_attempt(run, lake)["request"]["flow_run"])

    def wait_final(self, run: str, seconds: float, lake: Path | None = None) -> FlowRun:
        """The flow run of the latest attempt once it has ended."""
        deadline = time.monotonic() + seconds
        while not (found := self.flow_run(run, lake)).is_final:
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        return found

    def wait_event(self, run: str, kind: str) -> dict[str, Any]:
        """The run's first event of that kind, once there is one."""
        path = self.lake / "runs" / run / "progress.jsonl"
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            found = [event for event in read_events(path)[0] if event["event"] == kind]
            if found:
                return found[0]
            time.sleep(0.2)
        raise AssertionError(f"run {run} has no event {kind}")

    def notes(self, run: str) -> list[str]:
        """What the run's stages noted, over all attempts."""
        events, _ = read_events(self.lake / "runs" / run / "progress.jsonl")
        return [event["text"] for event in events if event["event"] == "note"]

    @staticmethod
    def family(pid: int) -> list[ProcessRecord]:
        """The process and all below it."""
        return [ProcessRecord(pid, birth_of(pid) or "gone", "", ""), *descendants(pid)]

    def latest_attempt(self, run: str, lake: Path | None = None) -> dict[str, Any]:
        directory = (lake or self.lake) / "runs" / run / "attempts"
        record: dict[str, Any] = json.loads(max(directory.iterdir()).read_text(encoding="utf-8"))
        return record

    @contextmanager
    def start_run(self, run: str, *overrides: str) -> Iterator[subprocess.Popen[str]]:
        """`grpo run full` in the background; killed if it still runs at the end."""
        words = [word for item in (*self.mini, *overrides) for word in ("--set", item)]
        with subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "run", "full", "--run", run, *words],
            cwd=self.project.root,
            env=self.project.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def run_in_training(
        self, run: str, *overrides: str, lake: Path | None = None, is_frozen: bool = False
    ) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """A new attempt after its next optimiser step, and the process that works on it.

        One that is frozen there (SIGSTOP) can not be through before anything is done to it.
        """
        directory = (lake or self.lake) / "runs" / run
        path = directory / "progress.jsonl"
        offset = path.stat().st_size if path.exists() else 0
        with self.start_run(run, *overrides) as process:
            while process.poll() is None:
                events, offset = read_events(path, offset)
                if any(e["event"] == "progress" and e["label"] == "train/1" for e in events):
                    lock = json.loads(run_lock(directory).read_text(encoding="utf-8"))
                    if is_frozen:
                        os.kill(lock["pid"], signal.SIGSTOP)
                    worker = ProcessRecord(lock["pid"], birth_of(lock["pid"]) or "gone", "", "")
                    try:
                        yield process, worker.pid
                    except BaseException:  # the next test finds nobody at work
                        kill(worker, signal.SIGKILL)
                        raise
                    finally:
                        kill(worker, signal.SIGCONT)
                    return
                time.sleep(0.01)
            raise AssertionError(f"the run ended before training:\n{process.communicate()[0]}")

    def _call(self, *command: str, timeout: float) -> subprocess.CompletedProcess[str]:
        environment = self.project.environment()
        # What a user's shell has not: settings come from prefect.toml and the profile.
        environment = {k: v for k, v in environment.items() if not k.startswith("PREFECT_")}
        return subprocess.run(
            command,
            cwd=self.project.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@pytest.fixture(scope="session")
def new_checkout(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Checkout]:
    """Makes a copy of the project's files in a new directory; nothing is started."""

    def copied() -> Checkout:
        root = tmp_path_factory.mktemp("with space") / "project"
        root.mkdir()
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, root / part)
        return Checkout(Project(root))

    return copied


@pytest.fixture(scope="session")
def checkout(new_checkout: Callable[[], Checkout]) -> Iterator[Checkout]:
    """One copy with its server and runner, for the tests of a session."""
    copy = new_checkout()
    with copy.up():
        yield copy
