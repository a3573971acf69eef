"""Progress of a run for people: `runs/<run>/progress.jsonl`, one JSON object a line.

The file is appended by the process that works and followed by the command line, so it looks the
same on a laptop and on a work pool. Events and their fields besides `at` (UTC) and `event`:

```
run_started      run, attempt, flow_run, stages
stage_started    stage, label                     label: node of the DAG (`samples`, `train/2`, …)
stage_waiting    stage, label, holder             another process computes the same key
progress         stage, label, done, total, unit, tokens, figures {name: number}
note             stage, label, text
alert            stage, label, kind, step, value, threshold
stage_finished   stage, label, state, seconds, tokens, figures
run_finished     run, attempt, state, seconds, error   state: Completed | Failed | Stopped
```
"""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MIN_INTERVAL_SECONDS = 0.2


class ProgressLog:
    """Appends events; `progress` events are throttled, all others are written at once.

    Args:
        path: The run's progress.jsonl; its directory must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_progress_at = 0.0

    def emit(self, event: str, **fields: Any) -> None:
        """Append one event as one line; a line torn by a full disk stays by itself."""
        record = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        line = (json.dumps(record | fields, separators=(",", ":"), default=str) + "\n").encode()
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            while line:  # one call, unless the disk is full: then the next one raises
                line = line[os.write(descriptor, line) :]
        finally:
            os.close(descriptor)

    def progress(
        self,
        *,
        stage: str,
        label: str,
        done: int,
        total: int,
        unit: str,
        tokens: int = 0,
        figures: dict[str, float] | None = None,
    ) -> None:
        """Report `done` of `total` units; the last one is always written."""
        now = time.monotonic()
        if done < total and now - self._last_progress_at < MIN_INTERVAL_SECONDS:
            return
        self._last_progress_at = now
        self.emit(
            "progress",
            stage=stage,
            label=label,
            done=done,
            total=total,
            unit=unit,
            tokens=tokens,
            figures=figures or {},
        )


def read_events(
    path: Path, offset: int = 0, end: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Read the whole lines from byte `offset`, up to `end`; returns the events and the new offset.

    A line that a full disk or a crash has torn is left out: it tells nothing, and what stands
    behind it must be read.
    """
    if not path.exists():
        return [], offset
    with path.open("rb") as stream:
        stream.seek(offset)
        data = stream.read(-1 if end is None else max(end - offset, 0))
    complete = data.rfind(b"\n") + 1
    parsed = (_event(line) for line in data[:complete].split(b"\n"))
    return [event for event in parsed if event is not None], offset + complete


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record else None


def iter_run_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every event of the run so far."""
    yield from read_events(path)[0]
