"""Prefect's runner outlasts a server that is away and a disk that is full."""

import asyncio
import io
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import httpx
import pytest
from prefect.utilities.services import critical_service_loop

from flows import patient_runner
from flows.patient_runner import LOOP, LOOPING_MODULES, bear_with_server, patient


@pytest.mark.parametrize("name", LOOPING_MODULES)
def test_prefect_polls_where_its_loops_are_replaced(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in LOOPING_MODULES:
        monkeypatch.setattr(import_module(module), LOOP, critical_service_loop)
    bear_with_server()
    assert getattr(import_module(name), LOOP) is patient_runner._loop


def _answer(code: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1/api")
    return httpx.HTTPStatusError("no", request=request, response=httpx.Response(code))


def test_a_loop_outlasts_any_number_of_failures_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Exception | None] = [httpx.ConnectError("away"), _answer(500)] * 10
    errors += [None, _answer(401)]

    async def poll() -> None:
        if (error := errors.pop(0)) is not None:
            raise error

    with pytest.raises(httpx.HTTPStatusError):  # a refusal is no absence
        asyncio.run(patient_runner._loop(poll, interval=0.001, jitter_range=0.3))
    assert errors == []
    assert caplog.text.count("does not answer, polling goes on") == 1
    assert caplog.text.count("answers again") == 1


def test_an_error_of_another_kind_is_raised() -> None:
    async def poll() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(patient(poll)())


PRINTING = """\
import sys
from flows.patient_runner import bear_with_full_disk
bear_with_full_disk()
print("lost", flush=True)
print("lost too", file=sys.stderr, flush=True)
sys.stdout.write("a" * 100_000)
sys.stdout.flush()
sys.exit(7)
"""


def test_what_a_full_disk_does_not_take_is_dropped() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PRINTING], stdout=full, stderr=full, env=os.environ
        )
    assert done.returncode == 7


def test_what_the_disk_takes_is_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="utf-8") as stream:
        dropping = patient_runner._dropping(stream)
        for line in ("one", "zwölf"):
            print(line, file=dropping)
        dropping.detach().detach()  # type: ignore[attr-defined]
    assert path.read_text(encoding="utf-8") == "one\nzwölf\n"
    assert isinstance(dropping, io.TextIOWrapper)
