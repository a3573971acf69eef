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
from prefect.client.orchestration import PrefectClient
from prefect.settings import PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings
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
    errors: list[Exception | None] = [httpx.ConnectError("away"), _answer(500), _answer(404)] * 10
    errors += [None, _answer(401)]

    async def poll() -> None:
        if (error := errors.pop(0)) is not None:
            raise error

    with pytest.raises(httpx.HTTPStatusError):  # a refusal is no absence
        asyncio.run(patient_runner._loop(poll, interval=0.001, jitter_range=0.3))
    assert errors == []
    assert caplog.text.count("does not answer, polling goes on") == 1
    assert caplog.text.count("answers again") == 1


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_password_is_no_absence(code: int) -> None:
    async def poll() -> None:
        raise _answer(code)

    with pytest.raises(httpx.HTTPStatusError):
        asyncio.run(patient(poll)())


FOREIGN = [(404, b""), (405, b""), (200, b""), (200, b"<html>"), (200, b"true"), (200, b"null")]
FOREIGN += [(200, b"[1]"), (200, b'{"a": 1}'), (200, b'[{"id": "7"}]'), (302, b"")]


@pytest.mark.parametrize(("code", "content"), FOREIGN)
def test_another_program_at_the_port_of_the_server_is_an_absent_server(
    code: int, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(code, content=content, headers={"Location": "/login"})

    async def poll() -> None:
        settings = {"transport": httpx.MockTransport(answer)}
        client = PrefectClient("http://127.0.0.1/api", httpx_settings=settings)
        await client.get_scheduled_flow_runs_for_deployments([])

    with temporary_settings({PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        asyncio.run(patient(poll)())
    assert caplog.text.count("does not answer, polling goes on") == 1


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
