"""Nothing that a flow started outlives it: real families, real torchrun, real SIGKILL."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.processes import ProcessRecord, birth_of, read_record, wait_gone
from flows.supervisor import supervised, sweep_orphans

ROOT = Path(__file__).resolve().parents[2]

FAMILY = [
    sys.executable,
    "-c",
    """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv[1]) < 3:
    child = [sys.executable, *sys.orig_argv[1:-1], sys.argv[1] + "x"]
    subprocess.Popen(child, start_new_session=True)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(120)
""",
]
"""Three generations, each in a session of its own, all deaf to SIGTERM."""

RANK = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "120"], start_new_session=True)
open(f"{os.environ['RANK']}.pids", "w").write(f"{os.getpid()} {child.pid}")
time.sleep(120)
"""

FLOW = """
import signal, subprocess, sys, time
from pathlib import Path
from flows import supervisor
from flows.supervisor import supervised
supervisor.CHILD_GRACE_SECONDS = 1.0
def end(*_): raise KeyboardInterrupt
signal.signal(signal.SIGTERM, end)
with supervised(Path("flow.json")):
    subprocess.Popen(sys.argv[1:], start_new_session=True)
    Path("started").touch()
    time.sleep(120)
"""


@contextmanager
def _flow(
    directory: Path, command: list[str], *, below_a_runner: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that starts `command` under supervision; or a runner whose child that is."""
    argv = [sys.executable, "-c", FLOW, *command]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if below_a_runner:
        start = "import subprocess, sys; subprocess.call(sys.argv[1:])"
        argv = [sys.executable, "-c", start, *argv]
        environment["PREFECT__FLOW_RUN_ID"] = "7"
    process = subprocess.Popen(argv, cwd=directory, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for(paths: list[Path]) -> list[ProcessRecord]:
    """The processes whose ids appear in the files."""
    deadline = time.monotonic() + 90
    while not all(path.exists() and path.read_text() for path in paths):
        assert time.monotonic() < deadline, paths
        time.sleep(0.05)
    pids = [int(pid) for path in paths for pid in path.read_text().split()]
    return [ProcessRecord(pid, birth_of(pid) or "gone", "", "") for pid in pids]


def _family(directory: Path) -> list[ProcessRecord]:
    found = _wait_for([directory / name for name in ("x", "xx", "xxx")])
    assert all(member.is_alive() for member in found)
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_no_generation_outlives_the_flow(tmp_path: Path, number: signal.Signals) -> None:
    with _flow(tmp_path, [*FAMILY, "x"]) as flow:
        family = _family(tmp_path)
        flow.send_signal(number)
        flow.wait(30)
        assert wait_gone(family, 20)
    assert (tmp_path / "flow.json").exists() == (number == signal.SIGKILL)


def test_a_flow_ends_when_its_runner_is_killed(tmp_path: Path) -> None:
    with _flow(tmp_path, [*FAMILY, "x"], below_a_runner=True) as runner:
        family = _family(tmp_path)
        flow = read_record(tmp_path / "flow.json")
        assert flow is not None
        runner.kill()
        assert wait_gone([flow, *family], 30)
    assert not (tmp_path / "flow.json").exists()


def test_flow_and_guardian_killed_leave_orphans_for_the_next_start(tmp_path: Path) -> None:
    with _flow(tmp_path, [*FAMILY, "x"]) as flow:
        family = _family(tmp_path)
        assert sweep_orphans() == 0
        for guardian in _children(flow.pid, "flows.supervisor"):
            os.kill(guardian, signal.SIGKILL)
        flow.kill()
        flow.wait()
        time.sleep(0.3)
        assert all(member.is_alive() for member in family)
        assert sweep_orphans() == len(family)
        assert wait_gone(family, 10)


def _children(pid: int, word: str) -> list[int]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [int(row[0]) for row in rows if row[1] == str(pid) and word in row[2]]


@pytest.mark.slow
def test_torchrun_its_ranks_and_their_children_are_gone_after_sigkill(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with _flow(tmp_path, [*torchrun, "rank.py"]) as flow:
        family = _wait_for([tmp_path / "0.pids", tmp_path / "1.pids"])
        assert len(family) == 4
        flow.kill()
        flow.wait()
        assert wait_gone(family, 20)


def test_children_of_others_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as before:
        with supervised(tmp_path / "flow.json"):
            assert read_record(tmp_path / "flow.json") is not None
            child = subprocess.Popen(["sleep", "60"])
        assert child.wait(5) == -signal.SIGTERM
        assert before.poll() is None
        before.kill()
