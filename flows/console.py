"""Standard output for results, standard error for everything else."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from grpo_core.store.catalog import DamagedEntry

PIPE_WIDTH = 160
"""Columns of tables that are not shown on a terminal."""

out = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
"""Results: what a script may read."""

err = Console(stderr=True)
"""Progress, hints and errors."""


def say(line: str) -> None:
    """A line for people, as it is: no markup, no wrapping of paths and commands."""
    err.print(line, markup=False, highlight=False, soft_wrap=True)


def say_error(message: str, hint: str = "") -> None:
    """An error in red, its hint below."""
    _say_with_hint("error", "bold red", message, hint)


def _say_with_hint(head: str, style: str, message: str, hint: str) -> None:
    err.print(f"{head}:", style=style, end=" ")
    say(message)
    if hint:
        err.print("hint:", style="bold", end=" ")
        say(hint)


def say_left_out(damaged: "Iterable[DamagedEntry]") -> None:
    """What no view shows: every run whose records are damaged, and how many artefacts."""
    num_artefacts = 0
    for entry in damaged:
        if entry.is_run:
            say_warning(f"run {entry.key} is left out: {entry.reason}", entry.hint)
        num_artefacts += not entry.is_run
    if num_artefacts:
        say_warning(
            f"damaged or missing artefacts are left out: {num_artefacts}",
            'grpo sql "from damaged" names them; the next run of their stages makes them again',
        )


def say_warning(message: str, hint: str = "") -> None:
    """What did not hinder the command, in yellow, its hint below."""
    _say_with_hint("warning", "bold yellow", message, hint)
