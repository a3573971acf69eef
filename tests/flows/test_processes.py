import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flows.processes import (
    ProcessRecord,
    birth_of,
    descendants,
    kill,
    read_record,
    stop_tree,
    wait_gone,
)

_STUBBORN_FAMILY = """
import signal, subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""


def _record(pid: int) -> ProcessRecord:
    birth = birth_of(pid)
    assert birth is not None
    return ProcessRecord(pid, birth, "", "")


def test_a_process_is_recognised_by_id_and_birth() -> None:
    me = _record(os.getpid())
    assert me.is_alive()
    assert not replace(me, birth="another boot:1").is_alive()


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps on this machine")
def test_without_proc_ps_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr(sys, "platform", "darwin")
        birth = birth_of(child.pid)
        assert birth
        assert birth == birth_of(child.pid)
        assert child.pid in [member.pid for member in descendants(os.getpid())]
        child.kill()
        child.wait()
        assert birth_of(child.pid) is None


def test_an_ended_process_is_gone_even_before_it_is_reaped() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    deadline = time.monotonic() + 20
    while birth_of(process.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert birth_of(process.pid) is None
    process.wait()


def test_stopping_a_tree_leaves_no_grandchild_that_ignores_sigterm() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _STUBBORN_FAMILY], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    family = descendants(process.pid)
    assert len(family) == 1
    assert stop_tree(_record(process.pid), grace_seconds=10)
    assert wait_gone(family, 5)
    process.wait()
    process.stdout.close()


def test_stopping_a_tree_spares_the_server_that_the_runner_has_revived() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _STUBBORN_FAMILY], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (server,) = descendants(process.pid)
    assert stop_tree(_record(process.pid), grace_seconds=10, spared=server)
    assert server.is_alive()
    kill(server, signal.SIGKILL)
    assert wait_gone([server], 5)
    process.wait()
    process.stdout.close()


def test_a_record_survives_the_disk_and_a_broken_one_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    assert read_record(path) is None
    record = ProcessRecord(1, "boot:2", "http://127.0.0.1:4200/api", "3.7.7")
    record.write(path)
    assert read_record(path) == record
    path.write_text('{"pid": 1}', encoding="utf-8")
    assert read_record(path) is None
    path.write_text("{", encoding="utf-8")
    assert read_record(path) is None
