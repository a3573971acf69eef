"""A pool of killable verifier processes, started only when an answer needs computer algebra."""

import atexit
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from grpo_core.errors import ConfigError
from grpo_core.rewards.extract import Extraction
from grpo_core.rewards.grading import Pending, Question, finished, grade_exactly
from grpo_core.rewards.nursery import Crew, Worker
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.protocol import encode, take
from grpo_core.rewards.verdict import Label, Verdict

DEFAULT_TIMEOUT_SECONDS: Final = 1.5
DEFAULT_MEMORY_BYTES: Final = 2 * 2**30
_ATTEMPTS: Final = 2

GradingRow = tuple[str, str, str | None]


@dataclass(slots=True)
class _Job:
    """One question in work: the rows that wait for it and how often it was tried."""

    pending: Pending
    rows: list[int]
    full: bool
    attempts: int = 0
    sent_at: float = 0.0


@dataclass(slots=True)
class _Round:
    """One call of `decide`: what is left, who works on what, what is known."""

    verdicts: dict[int, Verdict]
    todo: deque[_Job]
    busy: dict[Worker, _Job] = field(default_factory=dict)
    idle: list[Worker] = field(default_factory=list)

    def settle(self, job: _Job, label: Label, reason: str) -> None:
        """Give every row of a job its verdict."""
        seconds = time.perf_counter() - job.sent_at
        for row in job.rows:
            self.verdicts[row] = finished(job.pending, label, reason, seconds)

    def take_idle(self, full: bool) -> Worker | None:
        """Return an idle worker of one kind."""
        for index, worker in enumerate(self.idle):
            if worker.full is full:
                return self.idle.pop(index)
        return None


class VerifierPool:
    """Grades batches; plain answers here, symbolic ones in processes that can be killed.

    A context manager. A batch of plain answers starts no process. One sample that hangs is killed
    after its time limit and its worker replaced; the other samples go on meanwhile. A worker that
    dies is replaced too, and its sample tried once more before it is an `error`.

    Args:
        workers: Most worker processes at a time; None means one per usable core.
        timeout_seconds: Wall-clock limit for one sample.
        memory_bytes: Address space of one worker, where the platform can limit it.
        options: The grader's choices; None means defaults.
    """

    def __init__(
        self,
        workers: int | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        *,
        options: VerifierOptions | None = None,
    ) -> None:
        if (workers is not None and workers < 1) or timeout_seconds <= 0 or memory_bytes < 1:
            raise ConfigError(
                "VerifierPool needs workers >= 1, timeout_seconds > 0 and memory_bytes >= 1, got "
                f"workers={workers}, timeout_seconds={timeout_seconds}, memory_bytes={memory_bytes}"
            )
        self.workers = workers or _usable_cores()
        self.timeout_seconds = timeout_seconds
        self.options = options or VerifierOptions()
        self._crews = {full: Crew(self.workers, memory_bytes, full=full) for full in (False, True)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def started(self) -> bool:
        """Whether any process has been started."""
        return any(crew.started for crew in self._crews.values())

    def grade_batch(self, batch: Sequence[GradingRow]) -> list[Verdict]:
        """Return one verdict a row, in the order of the rows.

        Args:
            batch: Rows (completion, gold, answer_type or None).
        """
        graded = [grade_exactly(text, gold, kind, self.options) for text, gold, kind in batch]
        pending = [verdict for verdict in graded if isinstance(verdict, Pending)]
        decided = iter(self.decide(pending))
        return [next(decided) if isinstance(v, Pending) else v for v in graded]

    def check_readable(
        self, gold: str, answer_type: str | None, options: VerifierOptions
    ) -> str | None:
        """Return why computer algebra cannot read a gold, None when it can.

        The gold is compared with itself in braces, so that it is parsed and not compared as text.
        """
        question = Question(f"{{{gold}}}", gold, answer_type, options, full=True)
        found = Extraction(gold, (gold,), False, "the gold itself")
        verdict = self.decide([Pending(question, found, 0.0)])[0]
        return None if verdict.label is Label.CORRECT else verdict.reason.rpartition("; ")[2]

    def decide(self, pending: Sequence[Pending]) -> list[Verdict]:
        """Return the verdicts of pending gradings, in order; equal questions are asked once."""
        if not pending:
            return []
        jobs: dict[object, _Job] = {}
        for row, item in enumerate(pending):
            job = jobs.setdefault(item.question, _Job(item, [], item.question.full))
            job.rows.append(row)
        work = _Round({}, deque(jobs.values()))
        try:
            self._run(work)
        finally:
            self._release(work)
        return [self._own(work.verdicts[row], item) for row, item in enumerate(pending)]

    def _own(self, verdict: Verdict, item: Pending) -> Verdict:
        found = item.extraction
        reason = verdict.reason.rpartition("; ")[2]
        return Verdict(
            verdict.label,
            verdict.reward_raw,
            found.answer,
            found.candidates,
            f"{found.reason}; {reason}",
            verdict.seconds,
        )

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
            worker = work.take_idle(job.full) or self._crews[job.full].borrow(wait=not work.busy)
            if worker is None:
                work.todo.append(job)
                if len({waiting.full for waiting in work.todo}) == 1:
                    return
                continue
            self._send(work, worker, job, selector)

    def _send(
        self, work: _Round, worker: Worker, job: _Job, selector: selectors.BaseSelector
    ) -> None:
        question = job.pending.question
        message = {
            "answer": question.answer,
            "gold": question.gold,
            "answer_type": question.answer_type,
            "options": question.options.canonical(),
        }
        job.attempts += 1
        job.sent_at = time.perf_counter()
        work.busy[worker] = job
        try:
            worker.connection.sendall(encode(message))
        except OSError:
            self._lost(work, worker)
        else:
            selector.register(worker.connection, selectors.EVENT_READ, worker)

    def _patience(self, work: _Round) -> float:
        oldest = min((job.sent_at for job in work.busy.values()), default=time.perf_counter())
        return max(0.0, oldest + self.timeout_seconds - time.perf_counter())

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
        if reply["label"] is None and not job.full:
            job.full, job.attempts = True, 0
            work.todo.append(job)
        else:
            work.settle(job, Label(reply["label"] or Label.ERROR), reply["reason"])

    def _lost(self, work: _Round, worker: Worker) -> None:
        job = work.busy.pop(worker)
        self._crews[worker.full].discard(worker)
        if job.attempts < _ATTEMPTS:
            work.todo.append(job)
        else:
            work.settle(job, Label.ERROR, "the worker died twice on this answer")

    def _reap(self, work: _Round, selector: selectors.BaseSelector) -> None:
        now = time.perf_counter()
        for worker, job in list(work.busy.items()):
            if now - job.sent_at >= self.timeout_seconds:
                selector.unregister(worker.connection)
                del work.busy[worker]
                self._crews[worker.full].discard(worker)
                work.settle(job, Label.TIMEOUT, f"no result after {self.timeout_seconds} s")

    def _release(self, work: _Round) -> None:
        for worker in work.busy:
            self._crews[worker.full].discard(worker)
        for worker in work.idle:
            self._crews[worker.full].give_back(worker)

    def close(self) -> None:
        """Stop every process; the pool starts them again when it is used again."""
        for crew in self._crews.values():
            crew.close()

    def abandon(self) -> None:
        """Let go of processes that belong to the parent of a forked process."""
        for crew in self._crews.values():
            crew.abandon()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Default:
    """The pool behind `grade` and the lock around making it."""

    def __init__(self) -> None:
        self.pools: list[VerifierPool] = []
        self.lock = threading.Lock()


_default = _Default()


def default_pool() -> VerifierPool:
    """Return the pool behind `grade`; made on first use, closed at exit, remade after fork."""
    with _default.lock:
        if not _default.pools:
            _default.pools.append(VerifierPool())
        return _default.pools[0]


def _close_default() -> None:
    while _default.pools:
        _default.pools.pop().close()


def _abandon_default() -> None:
    _default.lock = threading.Lock()
    while _default.pools:
        _default.pools.pop().abandon()


atexit.register(_close_default)
os.register_at_fork(after_in_child=_abandon_default)
