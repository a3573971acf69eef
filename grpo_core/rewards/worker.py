"""The killable side of verifiers: a nursery that imports what it needs once and forks workers.

The nursery runs as a plain interpreter of its own (no re-import of the caller's main module, no
inherited threads). It forks one worker per request, so replacing a killed worker costs
milliseconds. When the caller's end of the control socket closes, for whatever reason, the nursery
kills its workers and exits.

Each kind of worker answers by a handler of its own. Two serve mathematics: `light` computes to
fifty digits and starts in a fraction of a second; `full` has sympy and math-verify in it, which
take seconds to import. `code` checks programs against tests, `program` runs them, `function` and
`batch` run a reward function of the user's.
"""

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from grpo_core.rewards.limits import limit_resources
from grpo_core.rewards.protocol import encode, receive, take

Handler = Callable[[dict[str, Any], socket.socket], dict[str, Any]]
"""(message, connection to whoever asks) → reply."""
HANDLERS: Final = MappingProxyType(
    {
        "light": "grpo_core.rewards.comparing:light_handler",
        "full": "grpo_core.rewards.comparing:full_handler",
        "code": "grpo_core.rewards.code.checking:make_handler",
        "program": "grpo_core.rewards.code.running:make_handler",
        "function": "grpo_core.rewards.functions.calling:sample_handler",
        "batch": "grpo_core.rewards.functions.calling:batch_handler",
    }
)
"""Kind of worker → factory of its handler: (settings) → handler. It runs in the nursery, before
workers are forked."""


def _run_worker(connection: socket.socket, settings: Mapping[str, Any], handler: Handler) -> None:
    """Answer questions until the other side closes; out of memory ends the process."""
    status = 1
    try:
        if settings.get("memory_bytes"):
            limit_resources(settings["memory_bytes"])
        buffer = bytearray()
        while (message := receive(connection, buffer)) is not None:
            connection.sendall(encode(handler(message, connection)))
        status = 0
    finally:
        os._exit(status)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class _Nursery:
    """Forks and kills workers on request until the control socket closes.

    Args:
        control: `{"fork": true}` with a socket attached is answered with `{"pid": n}`;
            `{"kill": pid}` kills and reaps a worker.
        settings: What the workers are started with.
        handler: How they answer.
    """

    def __init__(
        self, control: socket.socket, settings: Mapping[str, Any], handler: Handler
    ) -> None:
        self._control = control
        self._settings = settings
        self._handler = handler
        self._children: set[int] = set()
        self._handed: list[int] = []

    def run(self) -> None:
        buffer = bytearray()
        try:
            while True:
                chunk, descriptors, _, _ = socket.recv_fds(self._control, 65_536, 4)
                if not chunk:
                    return
                buffer.extend(chunk)
                self._handed.extend(descriptors)
                while (request := take(buffer)) is not None:
                    self._obey(request)
        finally:
            for pid in self._children:
                _kill(pid)

    def _obey(self, request: dict[str, Any]) -> None:
        if "fork" in request:
            self._fork(socket.socket(fileno=self._handed.pop(0)))
        elif request["kill"] in self._children:
            self._children.discard(request["kill"])
            _kill(request["kill"])

    def _fork(self, connection: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            self._control.close()
            _run_worker(connection, self._settings, self._handler)
        connection.close()
        self._children.add(pid)
        self._control.sendall(encode({"pid": pid}))


def _make_handler(settings: Mapping[str, Any]) -> Handler:
    module, name = HANDLERS[settings["kind"]].split(":")
    factory: Callable[[Mapping[str, Any]], Handler] = getattr(import_module(module), name)
    return factory(settings)


def main() -> None:
    """Run a nursery on the socket that is standard input."""
    settings = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=os.dup(0)) as control:
        try:
            handler = _make_handler(settings)
        except Exception as error:  # noqa: BLE001 - whatever a user's module raises is reported
            control.sendall(encode({"error": f"{type(error).__name__}: {error}"}))
            return
        gc.freeze()
        _Nursery(control, settings, handler).run()
