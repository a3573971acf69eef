"""`grpo up`, `grpo down`, `grpo status`: the local Prefect server and runner."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from flows.console import out, say
from flows.local import BUSY_SECONDS, Status, down, ensure_up, status
from flows.project import foreign_settings, this_project


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("up")(up_command)
    app.command("down")(down_command)
    app.command("status")(status_command)


def up_command(
    pool: Annotated[
        bool, typer.Option("--pool", help="Give the deployments to workers, as prefect.yaml says.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Take them back to the local runner.")
    ] = False,
) -> None:
    """Start the local Prefect server and runner, if they are not running."""
    if pool and local:
        raise typer.BadParameter("give --pool or --local, not both")
    project = this_project()
    client = ensure_up(project, say)
    if pool or local:
        from flows.work_pool import give_to_pool, take_back

        patient = client.patient(BUSY_SECONDS)
        give_to_pool(project, patient, say) if pool else take_back(patient, say)
        ensure_up(project, say)
    out.print(f"Prefect: {client.url.removesuffix('/api')}", highlight=False)
    out.print(f"run: {_prefect()} deployment run grpo/full --watch", highlight=False)
    for name in foreign_settings():
        say(
            f"{name}={os.environ[name]} is set in this shell, so `prefect` goes there: unset {name}"
        )


def down_command() -> None:
    """Stop runner and server; a run in progress is cancelled and can be continued."""
    down(this_project(), say)


def status_command() -> None:
    """Say what is running: server, runner, deployments, runs."""
    found = status(this_project())
    out.print(_table(found))
    if found.server is None or found.runner is None or not found.is_healthy:
        raise typer.Exit(1)


def _prefect() -> str:
    """`prefect` as it must be typed in this shell: by name, or by path when not on PATH."""
    own = Path(sys.executable).with_name("prefect")
    found = shutil.which("prefect")
    if found is not None and Path(found).resolve() == own.resolve():
        return "prefect"
    root = this_project().root
    return str(own.relative_to(root)) if own.is_relative_to(root) else str(own)


def _table(found: Status) -> Table:
    table = Table.grid(padding=(0, 2))
    server = "not running: grpo up"
    if found.server is not None:
        answers = "answers" if found.is_healthy else "does not answer"
        server = f"{answers} at {found.server.address} (pid {found.server.pid})"
    runner = f"polls (pid {found.runner.pid})" if found.runner else "not running: grpo up"
    table.add_row("server", server)
    table.add_row("runner", runner)
    table.add_row("deployments", ", ".join(found.deployments) or "none")
    table.add_row("runs", ", ".join(found.active) or "none in progress")
    return table
