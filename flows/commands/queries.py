"""`grpo sql`."""

import typer


def register(app: typer.Typer) -> None:
    """X."""
