"""A server that stays away: a run completes in the lake, and Prefect hears of it later."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from flows.processes import ProcessRecord, birth_of, kill, read_record, wait_gone

if TYPE_CHECKING:
    from tests.e2e.conftest import Checkout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

SHORT_TRIES = "\n[client]\nmax_retries = 2\n"
"""Prefect's client gives a request up after 6 s in place of a minute; so do runner and engine."""


@contextmanager
def _server_away(checkout: Checkout) -> Iterator[None]:
    """The server is killed; who would start it again finds another `grpo up` at work."""
    server = read_record(checkout.project.record("server"))
    assert server is not None
    with (checkout.project.state / "up.lock").open("w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        os.kill(server.pid, signal.SIGKILL)
        yield
        assert not server.is_alive()
        assert read_record(checkout.project.record("server")) == server


def test_a_run_whose_server_stays_away_completes_and_prefect_hears_of_it(
    new_checkout: Callable[[], Checkout],
) -> None:
    checkout = new_checkout()
    with (checkout.project.root / "prefect.toml").open("a", encoding="utf-8") as settings:
        settings.write(SHORT_TRIES)
    with checkout.up():
        runner = read_record(checkout.project.record("runner"))
        assert runner is not None
        with (
            checkout.run_in_training("away") as (process, pid),
            _server_away(checkout),
        ):
            worker = ProcessRecord(pid, birth_of(pid) or "gone", "", "")
            output, _ = process.communicate(timeout=300)
            assert process.returncode == 0, output
            assert checkout.latest_attempt("away")["state"] == "Completed"
            kill(worker, signal.SIGKILL)  # it still tries to tell the server of its end
            assert wait_gone([worker], 60)
            assert runner.is_alive(), checkout.project.log("runner").read_text()[-3000:]
        up = checkout.grpo("up")
        assert up.returncode == 0, up.stderr
        told = checkout.flow_run("away")
        assert (told.state_type, told.state_name) == ("COMPLETED", "Completed")
        words = [word for item in checkout.mini for word in ("--set", item)]
        again = checkout.grpo("run", "full", "--run", "away", *words)
        assert again.returncode == 0, again.stderr
        assert read_record(checkout.project.record("runner")) == runner
        assert {n["state"] for n in checkout.latest_attempt("away")["nodes"]} == {"Reused"}
    log = checkout.project.log("runner").read_text(encoding="utf-8")
    assert "the Prefect server does not answer, polling goes on" in log
    assert "is not in the UI: the Prefect server does not answer" in log


def test_a_run_whose_database_stays_locked_completes(new_checkout: Callable[[], Checkout]) -> None:
    checkout = new_checkout()
    database = checkout.project.home / "prefect.db"
    with checkout.up(), checkout.run_in_training("locked") as (process, _):
        with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            event = checkout.wait_event("locked", "run_finished")
            assert event["state"] == "Completed"
            connection.execute("ROLLBACK")
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        assert checkout.wait_final("locked", 120).state_type == "COMPLETED"
    log = checkout.project.log("runner").read_text(encoding="utf-8")
    assert "is not in the UI: the Prefect server" in log
