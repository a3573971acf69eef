"""Whatever interrupts a query comes through as it is, wherever the query stands."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import DataContractError, StalledError
from grpo_core.stages.unit_watch import UnitWatch
from grpo_core.store.catalog import Catalog
from grpo_core.store.query_thread import QueryThread
from grpo_core.store.warehouse import Warehouse

FIRST_ROW = "select sum(a.range * b.range) from range(3000000) a, range(3000000) b"
"""Endless before its first row."""
NEXT_ROW = (
    "select a.range * b.range as n from range(3000000) a, range(3000000) b "
    "where hash(a.range * b.range) % 100000007 = 5"
)
"""Endless between two rows: there DuckDB looks for no signal."""
QUERIES = pytest.mark.parametrize("sql", [FIRST_ROW, NEXT_ROW], ids=["first", "next"])
EMPTY = Catalog((), (), (), {})


class TerminationSignal(BaseException):
    """As Prefect raises it in the handler of SIGTERM."""


class SlowToEnd:
    """A connection whose work ends after some interrupts only, as a query deep in one operator.

    Args:
        needed: Interrupts that it takes.
    """

    def __init__(self, needed: int) -> None:
        self.num_interrupts = 0
        self.is_at_work = threading.Event()
        self.is_over = False
        self._needed = needed

    def interrupt(self) -> None:
        """Count it."""
        self.num_interrupts += 1

    def work(self) -> None:
        """Go on until there were enough, or for ten seconds."""
        self.is_at_work.set()
        give_up = time.monotonic() + 10
        while self.num_interrupts < self._needed and time.monotonic() < give_up:
            time.sleep(0.01)
        self.is_over = self.num_interrupts >= self._needed


@contextmanager
def sending(number: int, handler: Callable[..., object], *, after: float = 0.5) -> Iterator[None]:
    """A signal to this process comes after a while."""
    before = signal.signal(number, handler)
    timer = threading.Timer(after, os.kill, (os.getpid(), number))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(number, before)


def end(*_: object) -> None:
    raise TerminationSignal


@pytest.mark.timeout(120, method="thread")
@QUERIES
def test_a_cancel_in_a_query_is_a_cancel(sql: str) -> None:
    with (
        Warehouse(EMPTY) as warehouse,
        pytest.raises(TerminationSignal),
        sending(signal.SIGTERM, end),
    ):
        warehouse.query(sql).dicts()


@pytest.mark.timeout(120, method="thread")
@QUERIES
def test_ctrl_c_in_a_query_is_ctrl_c(sql: str) -> None:
    with (
        Warehouse(EMPTY) as warehouse,
        pytest.raises(KeyboardInterrupt),
        sending(signal.SIGINT, signal.default_int_handler),
    ):
        warehouse.query(sql).dicts()


@pytest.mark.timeout(120, method="thread")
@QUERIES
def test_a_query_that_stalls_a_stage_is_a_stall(sql: str, tmp_path: Path) -> None:
    watch = UnitWatch("audit", 0.5, tmp_path / "log")
    place = r"it stood in \S+/grpo_core/store/(warehouse|results)\.py:\d+\n"
    with Warehouse(EMPTY) as warehouse, pytest.raises(StalledError, match=place), watch.armed():
        warehouse.query(sql).dicts()


def test_a_connection_works_on_after_an_interrupt() -> None:
    with Warehouse(EMPTY) as warehouse:
        with pytest.raises(TerminationSignal), sending(signal.SIGTERM, end):
            warehouse.query(FIRST_ROW).dicts()
        assert warehouse.query("select 1 as n").dicts() == [{"n": 1}]
        with pytest.raises(DataContractError, match="nowhere"):
            warehouse.query("select * from nowhere")


def test_another_thread_queries_in_place() -> None:
    found: list[object] = []
    with Warehouse(EMPTY) as warehouse:
        thread = threading.Thread(
            target=lambda: found.extend(warehouse.query("select 1 as n").dicts())
        )
        thread.start()
        thread.join()
    assert found == [{"n": 1}]


_CTRL_C = """
import os, signal, sys, threading
from flows import cli
import grpo_core.reporting.tables, grpo_core.store.warehouse
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us with &
threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
sys.argv = ["grpo", "sql", sys.argv[1], "--lake", sys.argv[2]]
cli.main()
"""


@QUERIES
def test_grpo_sql_ends_on_ctrl_c_without_a_traceback(sql: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CTRL_C, sql, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr


def test_a_signal_while_a_query_is_handed_over_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(self: ThreadPoolExecutor, *work: Any) -> Any:
        submit_for_real(self, *work)
        assert ended.is_at_work.wait(60)
        raise KeyboardInterrupt

    submit_for_real = ThreadPoolExecutor.submit
    ended = SlowToEnd(2)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt), QueryThread(ended) as at:
        at.run(ended.work)
    assert ended.is_over


def test_a_signal_before_a_query_is_handed_over_leaves_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def submit(*_: Any) -> None:
        raise KeyboardInterrupt

    ended = SlowToEnd(2)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt), QueryThread(ended) as at:
        at.run(ended.work)
    assert ended.num_interrupts == 0


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (TerminationSignal, KeyboardInterrupt, TerminationSignal),
        (KeyboardInterrupt, StalledError, KeyboardInterrupt),
        (StalledError, KeyboardInterrupt, KeyboardInterrupt),
    ],
)
def test_a_second_signal_waits_for_the_end_of_the_query_too(
    first: type[BaseException], second: type[BaseException], winner: type[BaseException]
) -> None:
    """A stall may be tried again, so a stop that comes after it must not get lost."""
    coming = iter([first("first"), second("second")])

    def act(*_: object) -> None:
        raise next(coming)

    ended = SlowToEnd(8)
    with (
        pytest.raises(winner),
        sending(signal.SIGTERM, act),
        sending(signal.SIGTERM, act, after=0.8),
        QueryThread(ended) as at,
    ):
        at.run(ended.work)
    assert ended.is_over


def test_a_warehouse_that_was_interrupted_while_it_made_views_makes_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Warehouse(EMPTY) as warehouse:
        with monkeypatch.context() as patch:
            patch.setattr("grpo_core.store.warehouse.attach_files", interrupted)
            with pytest.raises(KeyboardInterrupt):
                warehouse.query("from run_bands")
        assert warehouse.query("from run_bands").dicts() == []
