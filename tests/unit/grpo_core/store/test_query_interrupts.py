"""Whatever interrupts a query comes through as it is, wherever the query stands."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grpo_core.errors import DataContractError, StalledError
from grpo_core.stages.unit_watch import UnitWatch
from grpo_core.store.catalog import Catalog
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


@contextmanager
def sending(number: int, handler: Callable[..., object]) -> Iterator[None]:
    """A signal to this process comes after a while."""
    before = signal.signal(number, handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
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
    with Warehouse(EMPTY) as warehouse, pytest.raises(StalledError), watch.armed():
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
