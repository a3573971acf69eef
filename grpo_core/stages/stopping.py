"""Asking a run to stop after the unit in work: a file in the run's directory, seen by any machine.

Whoever works on the run looks between units. The request is for the attempt in progress: the next
attempt drops it, so a stopped run can simply be run again.
"""

import json
from pathlib import Path

from grpo_core.errors import RunStoppedError
from grpo_core.store.files import write_json

STOP_FILE = "stop.json"


def request_stop(directory: Path, by: str) -> None:
    """Ask whoever works in `lake/runs/<run>` to stop.

    Args:
        directory: The run's directory.
        by: Who asks, for the record.
    """
    write_json(directory / STOP_FILE, {"by": by})


def asked_to_stop(directory: Path) -> str | None:
    """Who asked the run to stop; None when nobody did."""
    try:
        return str(json.loads((directory / STOP_FILE).read_text(encoding="utf-8"))["by"])
    except FileNotFoundError:
        return None


def stop_if_asked(directory: Path) -> None:
    """End the work here when somebody asked for it.

    Raises:
        RunStoppedError: Somebody did.
    """
    by = asked_to_stop(directory)
    if by is not None:
        raise RunStoppedError(f"stopped as asked by {by}; every finished unit is kept")


def forget_stop(directory: Path) -> None:
    """Drop a request that was meant for an earlier attempt."""
    (directory / STOP_FILE).unlink(missing_ok=True)
