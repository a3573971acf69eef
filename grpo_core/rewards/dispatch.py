"""Hands requests to killable workers: a time limit each, one retry after a death, no stalling."""

import selectors
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from grpo_core.rewards.nursery import Crew, Worker
from grpo_core.rewards.protocol import encode, take

_ATTEMPTS: Final = 2
_ESCALATE: Final = "escalate"
"""Field of a reply that passes its request on to the worker kind in `Request.harder`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question for a worker.

    Args:
        kind: Kind of worker that is asked.
        message: What it is asked, as plain JSON.
        harder: Kind of worker that is asked instead when the first passes it on.
    """

    kind: str
    message: Mapping[str, Any]
    harder: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a request.

    Args:
        body: The worker's answer; None when there is none.
        failure: Why there is none: `timeout`, or `died` when two workers died on it.
        seconds: Wall-clock seconds of the last attempt.
    """

    body: Mapping[str, Any] | None
    failure: Literal["", "timeout", "died"]
    seconds: float


@dataclass(slots=True)
class _Job:
    """A request in work."""

    request: Request
    index: int
    kind: str
    attempts: int = 0
    sent_at: float = 0.0


@dataclass(slots=True)
class _Round:
    """One call of `ask`: what is left, who works on what, what is known."""

    replies: dict[int, Reply]
    todo: deque[_Job]
    busy: dict[Worker, _Job] = field(default_factory=dict)
    idle: list[Worker] = field(default_factory=list)

    def settle(
        self,
        job: _Job,
        body: Mapping[str, Any] | None,
        failure: Literal["", "timeout", "died"] = "",
    ) -> None:
        """Record what became of a job."""
        self.replies[job.index] = Reply(body, failure, time.perf_counter() - job.sent_at)

    def take_idle(self, kind: str) -> Worker | None:
        """Return an idle worker of one kind."""
        for index, worker in enumerate(self.idle):
            if worker.kind == kind:
                return self.idle.pop(index)
        return None


class Dispatcher:
    """Asks workers of several kinds, many at a time.

    Args:
        crews: Kind → the workers of that kind.
        timeout_seconds: Kind → wall-clock limit of one request.
    """

    def __init__(self, crews: Mapping[str, Crew], timeout_seconds: Mapping[str, float]) -> None:
        self.crews = dict(crews)
        self._timeouts = dict(timeout_seconds)

    @property
    def started(self) -> bool:
        """Whether any process has been started."""
        return any(crew.started for crew in self.crews.values())

    def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Return one reply a request, order kept; a request that hangs stalls no other."""
        jobs = [_Job(request, index, request.kind) for index, request in enumerate(requests)]
        work = _Round({}, deque(jobs))
        try:
            self._run(work)
        finally:
            self._release(work)
        return [work.replies[index] for index in range(len(jobs))]

    def _run(self, work: _Round) -> None:
        with selectors.DefaultSelector() as selector:
            while work.todo or work.busy:
                self._feed(work, selector)
                for key, _ in selector.select(self._patience(work)):
                    worker: Worker = key.data
                    selector.unregister(worker.connection)
                    self._collect(work, worker, selector)
                self._reap(work, selector)

    def _feed(self, work: _Round, selector: selectors.BaseSelector) -> None:
        for _ in range(len(work.todo)):
            job = work.todo.popleft()
            worker = work.take_idle(job.kind) or self.crews[job.kind].borrow(wait=not work.busy)
            if worker is None:
                work.todo.append(job)
                if len({waiting.kind for waiting in work.todo}) == 1:
                    return
                continue
            self._send(work, worker, job, selector)

    def _send(
        self, work: _Round, worker: Worker, job: _Job, selector: selectors.BaseSelector
    ) -> None:
        job.attempts += 1
        job.sent_at = time.perf_counter()
        work.busy[worker] = job
        try:
            worker.connection.sendall(encode(job.request.message))
        except OSError:
            self._lost(work, worker)
        else:
            selector.register(worker.connection, selectors.EVENT_READ, worker)

    def _deadline(self, job: _Job) -> float:
        return job.sent_at + self._timeouts[job.kind]

    def _patience(self, work: _Round) -> float:
        now = time.perf_counter()
        return max(0.0, min((self._deadline(job) for job in work.busy.values()), default=now) - now)

    def _collect(self, work: _Round, worker: Worker, selector: selectors.BaseSelector) -> None:
        try:
            chunk = worker.connection.recv(65_536)
        except OSError:
            chunk = b""
        if not chunk:
            self._lost(work, worker)
            return
        worker.buffer.extend(chunk)
        reply = take(worker.buffer)
        if reply is None:
            selector.register(worker.connection, selectors.EVENT_READ, worker)
            return
        job = work.busy.pop(worker)
        work.idle.append(worker)
        if reply.get(_ESCALATE) and job.kind != job.request.harder:
            job.kind, job.attempts = job.request.harder, 0
            work.todo.append(job)
        else:
            work.settle(job, reply)

    def _lost(self, work: _Round, worker: Worker) -> None:
        job = work.busy.pop(worker)
        self.crews[worker.kind].discard(worker)
        if job.attempts < _ATTEMPTS:
            work.todo.append(job)
        else:
            work.settle(job, None, "died")

    def _reap(self, work: _Round, selector: selectors.BaseSelector) -> None:
        now = time.perf_counter()
        for worker, job in list(work.busy.items()):
            if now >= self._deadline(job):
                selector.unregister(worker.connection)
                del work.busy[worker]
                self.crews[worker.kind].discard(worker)
                work.settle(job, None, "timeout")

    def _release(self, work: _Round) -> None:
        for worker in work.busy:
            self.crews[worker.kind].discard(worker)
        for worker in work.idle:
            self.crews[worker.kind].give_back(worker)

    def close(self) -> None:
        """Stop every process; they start again when needed."""
        for crew in self.crews.values():
            crew.close()

    def abandon(self) -> None:
        """Let go of processes that belong to the parent of a forked process."""
        for crew in self.crews.values():
            crew.abandon()
