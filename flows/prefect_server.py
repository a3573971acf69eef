"""Prefect's own command line, with its server kept from a standstill: `-m flows.prefect_server`.

On SQLite, a server of Prefect before 3.8.6 (github.com/PrefectHQ/prefect/issues/23055) blocks its
event loop whenever an automation is saved while it looks through the automations, as it does every
five seconds, and never answers again. Here the update is left to that loop, as in later releases.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from importlib import import_module
from typing import Any

from prefect.cli import app
from prefect.logging import get_logger
from prefect.utilities.asyncutils import run_coro_as_sync

_logger = get_logger(__name__)
_updates: set[asyncio.Task[None]] = set()
"""What is under way; the event loop itself keeps no tasks."""


def update_automations_in_turn() -> None:
    """Have this process's server take up saved automations without waiting for it in its loop.

    Releases that need no help may have the function elsewhere, or not at all.
    """
    with suppress(ImportError):
        automations: Any = import_module("prefect.server.events.models.automations")
        if hasattr(automations, "run_coro_as_sync"):
            automations.run_coro_as_sync = _soon


def _soon(update: Coroutine[Any, Any, None]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # nothing else waits for this thread
        run_coro_as_sync(update)
        return
    task = loop.create_task(update)
    _updates.add(task)
    task.add_done_callback(_end)


def _end(task: asyncio.Task[None]) -> None:
    _updates.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("a saved automation was not taken up, which is tried again", exc_info=error)


if __name__ == "__main__":
    update_automations_in_turn()
    app()
