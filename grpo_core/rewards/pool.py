"""A pool of killable verifier processes, started only when an answer needs computer algebra."""

import atexit
import os
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from grpo_core.errors import ConfigError
from grpo_core.rewards.dispatch import Dispatcher, Reply, Request
from grpo_core.rewards.extract import Extraction
from grpo_core.rewards.grading import Pending, Question, finished, grade_exactly
from grpo_core.rewards.nursery import Crew
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.verdict import Label, Verdict

DEFAULT_TIMEOUT_SECONDS: Final = 1.5
DEFAULT_MEMORY_BYTES: Final = 2 * 2**30
LIGHT: Final = "light"
FULL: Final = "full"

GradingRow = tuple[str, str, str | None]


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
        self.workers = workers or usable_cores()
        self.timeout_seconds = timeout_seconds
        self.options = options or VerifierOptions()
        settings = {"memory_bytes": memory_bytes}
        self._dispatcher = Dispatcher(
            {kind: Crew(self.workers, kind, settings) for kind in (LIGHT, FULL)},
            {LIGHT: timeout_seconds, FULL: timeout_seconds},
        )

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
        return self._dispatcher.started

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
        numbers: dict[Question, int] = {}
        for item in pending:
            numbers.setdefault(item.question, len(numbers))
        replies = self._dispatcher.ask([_request(question) for question in numbers])
        return [self._verdict(item, replies[numbers[item.question]]) for item in pending]

    def _verdict(self, pending: Pending, reply: Reply) -> Verdict:
        if reply.body is not None:
            label, reason = Label(reply.body["label"]), str(reply.body["reason"])
        elif reply.failure == "timeout":
            label, reason = Label.TIMEOUT, f"no result after {self.timeout_seconds} s"
        else:
            label, reason = Label.ERROR, "the worker died twice on this answer"
        return finished(pending, label, reason, reply.seconds)

    def close(self) -> None:
        """Stop every process; the pool starts them again when it is used again."""
        self._dispatcher.close()

    def abandon(self) -> None:
        """Let go of processes that belong to the parent of a forked process."""
        self._dispatcher.abandon()


def _request(question: Question) -> Request:
    message = {
        "answer": question.answer,
        "gold": question.gold,
        "answer_type": question.answer_type,
        "options": question.options.canonical(),
    }
    return Request(FULL if question.full else LIGHT, message, harder=FULL)


def usable_cores() -> int:
    """Cores that this process may use."""
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
