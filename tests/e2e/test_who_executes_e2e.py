"""Who executes: it never changes under a run, and nothing runs where no worker is."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flows.processes import ProcessRecord, descendants, read_record

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
_LISTEN = "0A"


@pytest.fixture(autouse=True)
def _local(checkout: Checkout) -> Iterator[None]:
    """Server and local runner are there, before and after."""
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr
    yield
    up = checkout.grpo("up", "--local")
    assert up.returncode == 0, up.stderr


def test_runs_in_progress_keep_their_executor_and_a_pool_without_workers_runs_nothing(
    checkout: Checkout,
) -> None:
    with checkout.run_in_training("kept", checkout.long, "train.seed=31") as (process, _):
        refused = checkout.grpo("up", "--pool")
        assert refused.returncode == 1
        assert "while runs are in progress: kept\n" in refused.stderr
        assert checkout.client.pools("grpo") == {}

        with (checkout.project.root / "flows" / "alerts.py").open("a") as code:
            code.write("# changed under a run\n")
        runner = read_record(checkout.project.record("runner"))
        assert "the busy runner stays" in checkout.grpo("up").stderr
        assert "the busy runner stays" not in checkout.grpo("up").stderr
        assert checkout.grpo("stop", "--run", "kept", "--now").returncode == 0
        process.communicate(timeout=400)
    checkout.wait_final("kept", 180)
    assert runner is not None
    assert runner.is_alive()
    assert "restarting the runner" in checkout.grpo("up").stderr
    assert not runner.is_alive()

    given = checkout.grpo("up", "--pool")
    assert given.returncode == 0, given.stderr
    sets = [word for item in checkout.mini for word in ("--set", item)]
    unheard = checkout.grpo("run", "ingest", "--run", "unheard", *sets)
    assert unheard.returncode == 1
    assert "a worker of pool 'grpo' is not alive" in unheard.stderr
    assert not (checkout.lake / "runs" / "unheard").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/net")
def test_nothing_listens_beyond_loopback(checkout: Checkout) -> None:
    family: list[ProcessRecord] = []
    for name in ("server", "runner"):
        record = read_record(checkout.project.record(name))
        assert record is not None
        family += [record, *descendants(record.pid)]
    addresses = {address for member in family for address in _listening(member.pid)}
    assert addresses == {"127.0.0.1"}


def _listening(pid: int) -> Iterator[str]:
    """Addresses at which a process listens."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            links.append(str(link.readlink()))
    inodes = {text[len("socket:[") : -1] for text in links if text.startswith("socket:[")}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        lines = Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        for _, local, _, state, *rest in (line.split() for line in lines):
            if state == _LISTEN and rest[5] in inodes:
                yield socket.inet_ntop(family, _bytes(local.partition(":")[0]))


def _bytes(words: str) -> bytes:
    """An address as /proc/net writes it: words of 32 bits in the machine's byte order."""
    parts = (words[at : at + 8] for at in range(0, len(words), 8))
    return b"".join(int(part, 16).to_bytes(4, sys.byteorder) for part in parts)
