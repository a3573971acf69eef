"""A full disk under `.grpo/`: said in two lines, survived by server and runner, nothing lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flows.processes import environments, read_record
from flows.project import Project

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


IN_NAMESPACE = "GRPO_TEST_IN_NAMESPACE"
"""Variable of the process in which `test_without_the_right_to_mount…` runs the others."""


@pytest.fixture
def small(new_checkout: Callable[[], Checkout]) -> Iterator[Checkout]:
    """A checkout whose `.grpo/` lies on a file system of its own of 32 MB, the lake elsewhere."""
    checkout = new_checkout()
    state = checkout.project.state
    state.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(state)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        assert IN_NAMESPACE not in os.environ, mounted.stderr
        pytest.skip(f"runs in a namespace of its own: {mounted.stderr}")
    try:
        yield checkout
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)


@contextmanager
def _full(checkout: Checkout) -> Iterator[None]:
    """No byte is left until the block ends."""
    filler = checkout.project.state / "filler"
    with filler.open("wb", buffering=0) as stream:
        while _takes(stream):
            pass
    try:
        yield
    finally:
        filler.unlink()


def _takes(stream: RawIOBase) -> bool:
    try:
        return bool(stream.write(b"x" * 4096))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False


def test_a_full_disk_in_the_middle_of_a_run_is_survived_and_nothing_is_lost(
    small: Checkout,
) -> None:
    with small.up():
        services = [read_record(small.project.record(name)) for name in ("server", "runner")]
        with small.run_in_training("cramped") as (process, _), _full(small):
            output, _ = process.communicate(timeout=200)
            refused = small.grpo("run", "ingest", "--run", "refused")
        assert refused.returncode == 1
        assert f"error: the disk is full: {small.project.state} has 0.0 MB" in refused.stderr
        assert process.returncode == 0, output
        words = [word for item in small.mini for word in ("--set", item)]
        again = small.grpo("run", "full", "--run", "cramped", *words, timeout=200)
        assert again.returncode == 0, again.stderr
        assert small.flow_run("cramped").state_type == "COMPLETED"
        states = {n["label"]: n["state"] for n in small.latest_attempt("cramped")["nodes"]}
        assert states["ref_logp"] == "Reused"
        assert [read_record(small.project.record(n)) for n in ("server", "runner")] == services
        assert all(service is not None and service.is_alive() for service in services)
    verified = small.grpo("lake", "verify")
    assert verified.returncode == 0, verified.stdout
    assert " 0 damaged" in verified.stdout


def test_grpo_up_and_down_on_a_full_disk_leave_nothing_running(small: Checkout) -> None:
    with small.up():
        pass
    with _full(small):
        up = small.grpo("up")
        down = small.grpo("down")
    assert up.returncode == 1
    *_, error, hint = up.stderr.strip().splitlines()
    assert error == f"error: the disk is full: {small.project.state} has 0.0 MB left"
    assert hint.startswith("hint: ")
    assert "Traceback" not in up.stderr
    assert _services(small.project) == []
    assert down.returncode == 0, down.stderr
    with small.up(), _full(small):
        down = small.grpo("down")
    assert down.returncode == 0, down.stderr
    assert _services(small.project) == []


def test_without_the_right_to_mount_the_same_in_a_namespace_of_its_own(tmp_path: Path) -> None:
    """Who may not mount may in a user namespace of their own, where the kernel grants one."""
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode == 0:
        subprocess.run(["umount", str(tmp_path)], check=True)
        pytest.skip("the tests above ran")
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    has_unshare = shutil.which("unshare") is not None
    tried = subprocess.run([*namespace, *mount], capture_output=True) if has_unshare else None
    if tried is None or tried.returncode:
        assert "CI" not in os.environ, f"CI must be able to mount a tmpfs: {tried}"
        pytest.skip(f"needs root, or Linux that grants user namespaces: {tried}")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not right_to_mount", __file__]
    environment = os.environ | {IN_NAMESPACE: "1"}
    done = subprocess.run([*namespace, sys.executable, *words], env=environment)
    assert done.returncode == 0


def _services(project: Project) -> list[int]:
    """Living processes that the project started."""
    home = str(project.home)
    return [process.pid for process, value in environments("PREFECT_HOME") if value == home]
