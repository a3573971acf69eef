"""The killable side of the verifier: a nursery that imports what it needs once and forks workers.

The nursery runs as a plain interpreter of its own (no re-import of the caller's main module, no
inherited threads). It forks one worker per request, so replacing a killed worker costs
milliseconds. When the caller's end of the control socket closes, for whatever reason, the nursery
kills its workers and exits.

There are two: the light one computes to fifty digits and starts in a fraction of a second; the
full one has sympy and math-verify in it, which take seconds to import.
"""

import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from grpo_core.rewards.grading import judge
from grpo_core.rewards.nodes import Node
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.precise import identical
from grpo_core.rewards.protocol import encode, receive, take
from grpo_core.rewards.scalars import NeedsSymbolic, SymbolicEqual
from grpo_core.rewards.tokens import UnreadableError
from grpo_core.rewards.verdict import Label

_COMPARISON_ERRORS: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    AssertionError,
)
Comparer = Callable[[VerifierOptions], SymbolicEqual]


def light_comparer(options: VerifierOptions) -> SymbolicEqual:
    """Return a comparison by high-precision arithmetic; what it cannot decide needs the full."""

    def same(answer: Node | str, gold: Node | str) -> bool:
        if isinstance(answer, str) or isinstance(gold, str):
            raise NeedsSymbolic(full=True)
        decided = identical(answer, gold, log_base_ten=options.log_base_ten)
        if decided is None:
            raise NeedsSymbolic(full=True)
        return decided

    return same


def full_comparer() -> Comparer:
    """Return a comparison by computer algebra, with its tables built."""
    from grpo_core.rewards.symbolic import SymbolicComparison, warm_up

    warm_up()
    return SymbolicComparison


def limit_resources(memory_bytes: int) -> None:
    """Bound this process: address space in bytes, no files written, no core dumps."""
    for kind, amount in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        if kind == resource.RLIMIT_AS and sys.platform == "darwin":
            continue
        _, hard = resource.getrlimit(kind)
        bounded = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (bounded, hard))


def answer(message: dict[str, Any], comparer: Comparer) -> dict[str, Any]:
    """Return the reply to one question: its label, or that it needs the full worker."""
    start = time.perf_counter()
    fields = message["options"]
    options = VerifierOptions(**{**fields, "reasoning_tags": tuple(fields["reasoning_tags"])})
    label: Label | None
    try:
        label, reason = judge(
            message["answer"],
            message["gold"],
            message["answer_type"],
            options,
            comparer(options),
        )
    except NeedsSymbolic:
        label, reason = None, "needs computer algebra"
    except UnreadableError as error:
        label, reason = Label.UNPARSEABLE, f"the answer cannot be read: {error}"
    except _COMPARISON_ERRORS as error:
        label, reason = Label.WRONG, f"cannot be shown equal ({type(error).__name__})"
    return {"label": label, "reason": reason, "seconds": time.perf_counter() - start}


def _run_worker(connection: socket.socket, memory_bytes: int, comparer: Comparer) -> None:
    """Answer questions until the other side closes; out of memory ends the process."""
    status = 1
    try:
        limit_resources(memory_bytes)
        buffer = bytearray()
        while (message := receive(connection, buffer)) is not None:
            connection.sendall(encode(answer(message, comparer)))
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
        memory_bytes: Address space of each worker.
        comparer: How the workers compare.
    """

    def __init__(self, control: socket.socket, memory_bytes: int, comparer: Comparer) -> None:
        self._control = control
        self._memory_bytes = memory_bytes
        self._comparer = comparer
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
            _run_worker(connection, self._memory_bytes, self._comparer)
        connection.close()
        self._children.add(pid)
        self._control.sendall(encode({"pid": pid}))


def main() -> None:
    """Run a nursery on the socket that is standard input."""
    settings = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    comparer = full_comparer() if settings["full"] else light_comparer
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as control:
        _Nursery(control, settings["memory_bytes"], comparer).run()
