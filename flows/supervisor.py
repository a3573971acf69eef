"""No process that a flow run started outlives it, however the run ends.

Two things see to that, on Linux and macOS alike:

- every child inherits a mark in its environment: process id and birth of the flow's process. A
  marked process whose owner is gone is an orphan, whoever its parent is now, in whatever session
  (torchrun gives every rank its own) and however deep it was started;
- a guardian, a small process of its own, watches the flow and its runner. When the runner is gone,
  the flow is asked to end; when the flow is gone, its orphans are killed.

A child that drops its environment is found as long as its parents live: the guardian notes the
whole tree below the flow several times a second.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.processes import ProcessRecord, birth_of, descendants, environments, kill, stop_all
from flows.project import FLOW_MARK
from grpo_core.paths import PROJECT_ROOT

CHILD_GRACE_SECONDS = 10.0
"""How long children have to end after SIGTERM; Prefect grants the whole flow 30 s."""
FLOW_GRACE_SECONDS = 30.0
WATCH_SECONDS = 0.5
_PARENT = os.getppid()
_HAS_RUNNER = "PREFECT__FLOW_RUN_ID" in os.environ


@contextmanager
def supervised(record: Path) -> Iterator[None]:
    """Whatever the block starts is gone when it ends, also when this process is killed.

    Args:
        record: Gets the record of this process for the time of the block.
    """
    me = ProcessRecord(os.getpid(), birth_of(os.getpid()) or "", "", "")
    record.parent.mkdir(parents=True, exist_ok=True)
    me.write(record)
    foreign = descendants(me.pid)
    os.environ[FLOW_MARK] = _mark(me)
    guardian = subprocess.Popen(
        [sys.executable, "-m", "flows.supervisor", str(me.pid), me.birth, *_runner()],
        cwd=PROJECT_ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {FLOW_MARK: "guardian"},
    )
    try:
        yield
    finally:
        os.environ.pop(FLOW_MARK, None)
        kept = {guardian.pid, *(process.pid for process in foreign)}
        below = [process for process in descendants(me.pid) if process.pid not in kept]
        stop_all([*below, *marked(me)], CHILD_GRACE_SECONDS)
        guardian.kill()
        guardian.wait()
        record.unlink(missing_ok=True)


def marked(owner: ProcessRecord) -> list[ProcessRecord]:
    """Living processes other than `owner` that it started, directly or not."""
    return [process for process, value in environments(FLOW_MARK) if value == _mark(owner)]


def sweep_orphans() -> int:
    """Kill every marked process of this user whose flow is gone; returns how many there were."""
    orphans = []
    for process, value in environments(FLOW_MARK):
        pid = value.partition("@")[0]
        if pid.isdigit():
            present = ProcessRecord(int(pid), birth_of(int(pid)) or "gone", "", "")
            orphans += [process] if _mark(present) != value else []
    for orphan in orphans:
        kill(orphan, signal.SIGKILL)
    return len(orphans)


def guard(flow: ProcessRecord, runner: ProcessRecord | None) -> None:
    """Watch until the flow is gone, then kill what it left; end it when its runner is gone."""
    family: dict[int, ProcessRecord] = {}
    while flow.is_alive():
        family |= {member.pid: member for member in descendants(flow.pid)}
        if runner is not None and not runner.is_alive():
            stop_all([flow], FLOW_GRACE_SECONDS)
            break
        time.sleep(WATCH_SECONDS)
    family.pop(os.getpid(), None)
    for _ in range(3):  # a process may just be starting another
        for member in [*family.values(), *marked(flow)]:
            kill(member, signal.SIGKILL)
        time.sleep(0.1)


def _mark(owner: ProcessRecord) -> str:
    """The mark of a process's children: one word, as ps prints environments."""
    return f"{owner.pid}@{owner.birth}".replace(" ", "_")


def has_lost_runner() -> bool:
    """Whether a runner or worker started this process and is gone."""
    return _HAS_RUNNER and os.getppid() != _PARENT


def _runner() -> list[str]:
    """Id and birth of the runner or worker that started this process; nothing without one."""
    return [str(_PARENT), birth_of(_PARENT) or "gone"] if _HAS_RUNNER else []


if __name__ == "__main__":
    pid, birth, *runner = sys.argv[1:]
    guard(
        ProcessRecord(int(pid), birth, "", ""),
        ProcessRecord(int(runner[0]), runner[1], "", "") if runner else None,
    )
