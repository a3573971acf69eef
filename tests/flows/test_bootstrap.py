"""The lock and the choice of interpreter of scripts/bootstrap.sh, without installing anything."""

import subprocess
import sys
from pathlib import Path

import pytest

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
SCRIPT = (Path(__file__).resolve().parents[2] / "scripts/bootstrap.sh").read_text(encoding="utf-8")
FUNCTIONS = SCRIPT[: SCRIPT.index('BUILD="$(wanted_torch)"')].replace('cd "$(dirname "$0")/.."', "")


def _run(directory: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"{FUNCTIONS}\nsleep() {{ :; }}\n{script}"],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_a_lock_whose_owner_died_before_naming_itself_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".grpo/venv.lock").mkdir(parents=True)
    done = _run(tmp_path, 'take_lock; cat "$LOCK/pid"; echo " $$"')
    assert done.returncode == 0, done.stderr
    mine, shell = done.stdout.split()
    assert mine == shell
    assert not (tmp_path / ".grpo/venv.lock").exists()


def test_a_lock_of_a_dead_process_is_taken_over_a_living_one_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / ".grpo/venv.lock"
    lock.mkdir(parents=True)
    dead = subprocess.Popen(["true"])
    dead.wait()
    (lock / "pid").write_text(str(dead.pid))
    assert _run(tmp_path, "take_lock").returncode == 0
    lock.mkdir()
    (tmp_path / "bootstrap.sh").write_text("while :; do sleep 0.1; done\n")
    living = _started(tmp_path, "sh bootstrap.sh")
    (lock / "pid").write_text(living)
    wait = f"sleep() {{ kill {living}; command sleep 0.1; }}; take_lock"
    done = _run(tmp_path, wait, COLUMNS="4")  # however narrow the terminal
    assert done.returncode == 0
    assert f"waiting for another installation (process {living})" in done.stderr


@pytest.mark.parametrize("ps", ["", pytest.param("ps() { return 127; };", marks=LINUX)])
def test_a_lock_whose_owner_s_id_belongs_to_another_program_is_taken_over(
    tmp_path: Path, ps: str
) -> None:
    lock = tmp_path / ".grpo/venv.lock"
    lock.mkdir(parents=True)
    other = _started(tmp_path, "sleep 60")
    (lock / "pid").write_text(other)
    done = _run(tmp_path, f"{ps} take_lock", COLUMNS="16")
    subprocess.run(["kill", other], check=True)
    assert (done.returncode, done.stderr) == (0, "")


def _started(directory: Path, command: str) -> str:
    """Id of a process that is not our child, so that it is gone once killed."""
    start = ["sh", "-c", f"{command} >/dev/null 2>&1 & echo $!"]
    done = subprocess.run(start, cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_interpreter_whose_path_has_spaces_is_found(tmp_path: Path) -> None:
    own = tmp_path / "my python"
    own.write_text("#!/bin/sh\necho 3.12.1 fits\n")
    own.chmod(0o755)
    done = _run(tmp_path, 'find_python && echo "$FOUND"', PYTHON=str(own))
    assert done.stdout.strip() == str(own), done.stderr
