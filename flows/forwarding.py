"""What Prefect gets to see of a running stage: one log line and one progress update in 5 s.

The stage writes `progress.jsonl`; a thread reads it here and passes on a thin selection, so that
neither the server's database nor `--watch` is flooded. Of alerts, which come with every step while
a figure stays out of range, that is the first and then the latest every half minute. A server that
is away costs the run nothing but its lines in the UI.
"""

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger

from flows.alerts import AlertThrottle, emit_alert
from flows.presence import server_is_there, telling
from flows.publishing import artifact_key
from flows.sentences import sentence
from grpo_core.errors import ServiceError
from grpo_core.store.progress import read_events
from grpo_core.types import StageName

INTERVAL_SECONDS = 5.0
Logger = logging.Logger | logging.LoggerAdapter[Any]


@contextmanager
def forward_progress(directory: Path, stage: StageName) -> Iterator[None]:
    """Forward the progress that the block's stage writes below `directory`."""
    forwarder = _Forwarder(directory, stage, get_run_logger())
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=context.run, args=(forwarder.run,), name=f"forward-{stage}", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        forwarder.stop()
        thread.join(timeout=2 * INTERVAL_SECONDS)


class _Forwarder:
    """Reads the run's new events every few seconds and passes on the latest."""

    def __init__(self, directory: Path, stage: StageName, logger: Logger) -> None:
        self.stopped = threading.Event()
        self._path = directory / "progress.jsonl"
        self._offset = self._size()
        self._end: int | None = None
        self._stage = stage
        self._logger = logger
        self._artifacts: dict[str, UUID] = {}
        self._throttle = AlertThrottle()

    def run(self) -> None:
        """Until stopped, then once more."""
        while not self.stopped.wait(INTERVAL_SECONDS):
            self._forward()
        self._forward(is_end=True)

    def stop(self) -> None:
        """Leave what is written from here on to the forwarder of the next stage."""
        self._end = self._size()
        self.stopped.set()

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _forward(self, *, is_end: bool = False) -> None:
        events, self._offset = read_events(self._path, self._offset, self._end)
        latest: dict[str, dict[str, Any]] = {}
        for event in events:
            if event["event"] == "progress":
                latest[event["label"]] = event
                continue
            if event["event"] == "alert":
                self._alert(self._throttle.offer(event))
                continue
            if event["event"] == "stage_finished" and latest.pop(event["label"], None):
                self._update(event["label"], 100.0)
            if (line := sentence(event)) is not None:
                self._logger.info(line)
        self._alert(self._throttle.due(is_end=is_end))
        for label, event in latest.items():
            self._logger.info(sentence(event))
            self._update(label, 100.0 * event["done"] / max(event["total"], 1))

    def _alert(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            emit_alert(self._path.parent.name, event)
            left_out = event["left_out"]
            more = f" ({left_out} more of them since the last line)" if left_out else ""
            self._logger.warning("%s%s", sentence(event), more)

    def _update(self, label: str, percent: float) -> None:
        if not server_is_there():
            return
        try:
            with telling():
                self._show(label, percent)
        except ServiceError as error:
            self._logger.warning("progress of %s is not in the UI: %s", label, error)

    def _show(self, label: str, percent: float) -> None:
        if label in self._artifacts:
            update_progress_artifact(self._artifacts[label], progress=percent)
        elif percent < 100.0:
            create: Callable[..., Any] = create_progress_artifact
            self._artifacts[label] = create(
                progress=percent,
                key=artifact_key(self._path.parent.name, label),
                description=f"{label} of run {self._path.parent.name}",
            )
