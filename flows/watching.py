"""`grpo watch`: follows the record that a run keeps of itself; needs no server."""

import time
from pathlib import Path

from flows.console import err, say
from flows.following import READ_SECONDS, is_held, run_lock
from flows.progress import RunProgress
from flows.view import make_view
from grpo_core.errors import DataContractError
from grpo_core.store.progress import read_events


def watch(directory: Path) -> int:
    """Show the latest attempt below `lake/runs/<run>` until it ends.

    Returns:
        Exit code: 0 completed, 1 failed, stopped or gone, 130 after Ctrl-C.

    Raises:
        DataContractError: There is no such run.
    """
    path = directory / "progress.jsonl"
    if not path.exists():
        raise DataContractError(
            f"there is no run {directory.name!r} in {directory.parents[1]}",
            hint="`grpo run` starts one; --lake names another lake",
        )
    progress = RunProgress()
    offset = 0
    with make_view(err, progress, directory.name) as view:
        try:
            while True:
                is_worked_on = is_held(run_lock(directory))
                events, offset = read_events(path, offset)
                view.show(progress.apply(latest_attempt(events)), "RUNNING")
                if not is_worked_on:
                    break
                time.sleep(READ_SECONDS)
        except KeyboardInterrupt:
            return 130
    outcome = progress.outcome
    if outcome is None:
        say("nobody works on it and it has not ended: its process was killed")
        return 1
    say(f"{outcome['state']}{': ' if outcome['error'] else ''}{outcome['error']}")
    return 0 if outcome["state"] == "Completed" else 1


def latest_attempt(events: list[dict[str, object]]) -> list[dict[str, object]]:
    """The events from the last `run_started` on; all of them when there is none."""
    starts = [at for at, event in enumerate(events) if event["event"] == "run_started"]
    return events[starts[-1] :] if starts else events
