"""Standard output for results, standard error for everything else."""

import sys

from rich.console import Console

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
    err.print("error:", style="bold red", end=" ")
    say(message)
    if hint:
        err.print("hint:", style="bold", end=" ")
        say(hint)
