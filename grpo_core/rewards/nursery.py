"""The calling side of the nurseries: starts them, lends out their workers, has workers killed."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from grpo_core.errors import ServiceError
from grpo_core.rewards.protocol import encode, receive

_MAIN: Final = "grpo_core.rewards.worker:main"
_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; "
    "from {} import {}; {}()".format(*_MAIN.split(":"), _MAIN.split(":")[1])
)
_START_SECONDS: Final = 120.0


@dataclass(slots=True, eq=False)
class Worker:
    """One worker: process id, socket, kind, what it has sent so far."""

    pid: int
    connection: socket.socket
    kind: str
    buffer: bytearray = field(default_factory=bytearray)

    def close(self) -> None:
        """Close the connection; a worker without one ends by itself."""
        self.connection.close()


class Nursery:
    """A process that forks workers, started on the first request.

    Args:
        kind: Kind of its workers, see `worker.HANDLERS`.
        settings: What the workers are started with, as plain JSON.
    """

    def __init__(self, kind: str, settings: Mapping[str, Any]) -> None:
        self._settings = {**settings, "kind": kind}
        self._kind = kind
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        """Whether a process has been started and not been stopped."""
        return self._process is not None

    def fork(self) -> Worker:
        """Return a fresh worker.

        Raises:
            ServiceError: When the nursery cannot be started, with its own reason if it has one.
        """
        with self._lock:
            for _ in range(2):
                worker = self._try_fork()
                if worker is not None:
                    return worker
                self._stop()
        raise ServiceError(
            f"the verifier's worker process ({self._kind}) cannot be started",
            "try: python -c 'import grpo_core.rewards.symbolic'",
        )

    def _try_fork(self) -> Worker | None:
        control = self._control or self._start()
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(control, [encode({"fork": True})], [theirs.fileno()])
            reply = receive(control, bytearray())
        except OSError:
            reply = None
        if reply is None:
            mine.close()
            return None
        if "error" in reply:
            mine.close()
            self._stop()
            raise ServiceError(f"{reply['error']}")
        return Worker(reply["pid"], mine, self._kind)

    def _start(self) -> socket.socket:
        mine, theirs = socket.socketpair()
        mine.settimeout(_START_SECONDS)
        settings = json.dumps({"path": sys.path, **self._settings})
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", _BOOT, settings],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control = mine
        return mine

    def kill(self, worker: Worker) -> None:
        """Kill a worker, whatever it is doing."""
        worker.close()
        with self._lock:
            if self._control is None:
                return
            try:
                self._control.sendall(encode({"kill": worker.pid}))
            except OSError:
                self._stop()

    def stop(self) -> None:
        """End the nursery and with it every worker."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control = self._process = None

    def abandon(self) -> None:
        """Forget a nursery inherited through fork without touching its processes."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.returncode = 0
        self._control = self._process = None


class Crew:
    """At most so many workers of one kind, lent to one caller at a time.

    Args:
        limit: Most workers at a time.
        kind: Kind of the workers.
        settings: What they are started with.
    """

    def __init__(self, limit: int, kind: str, settings: Mapping[str, Any]) -> None:
        self._limit = limit
        self._nursery = Nursery(kind, settings)
        self._free: list[Worker] = []
        self._alive = 0
        self._changed = threading.Condition()

    @property
    def started(self) -> bool:
        """Whether any process is there."""
        return self._nursery.started

    def borrow(self, *, wait: bool) -> Worker | None:
        """Return a worker for the caller alone; None when all are lent out and `wait` is off."""
        with self._changed:
            while not self._free and self._alive >= self._limit:
                if not wait:
                    return None
                self._changed.wait()
            if self._free:
                return self._free.pop()
            self._alive += 1
        worker = None
        try:
            worker = self._nursery.fork()
        finally:
            if worker is None:
                self._forget()
        return worker

    def give_back(self, worker: Worker) -> None:
        """Take back a worker that is idle."""
        with self._changed:
            self._free.append(worker)
            self._changed.notify()

    def discard(self, worker: Worker) -> None:
        """Kill a worker and make room for another."""
        self._nursery.kill(worker)
        self._forget()

    def _forget(self) -> None:
        with self._changed:
            self._alive -= 1
            self._changed.notify()

    def close(self) -> None:
        """Stop every process; they start again when needed."""
        self._close_free()
        self._nursery.stop()

    def abandon(self) -> None:
        """Let go of processes that belong to the parent of a forked process."""
        self._close_free()
        self._nursery.abandon()

    def _close_free(self) -> None:
        for worker in self._free:
            worker.close()
            self._alive -= 1
        self._free = []
