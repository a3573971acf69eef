"""`grpo lake`: care of the lake."""

from typing import Annotated

import typer

from flows.commands.options import LakeOption, open_lake
from flows.console import out

app = typer.Typer(help="Care of the lake.", no_args_is_help=True)


@app.callback()
def lake_command() -> None:
    """Care of the lake."""


@app.command("refresh")
def refresh_command(lake: LakeOption = None) -> None:
    """Rebuild lake.duckdb, the views for other DuckDB clients; needed after moving the lake."""
    from grpo_core.store.lake_database import write_lake_database

    opened = open_lake(lake)
    opened.root.mkdir(parents=True, exist_ok=True)
    write_lake_database(opened.catalog(), opened.database)
    out.print(str(opened.database), soft_wrap=True, highlight=False)


@app.command("verify")
def verify_command(lake: LakeOption = None) -> None:
    """Hash every file of every artefact anew; exit code 1 when one is damaged."""
    from grpo_core.store.maintenance import verify

    count, damaged = verify(open_lake(lake))
    for entry in damaged:
        out.print(f"[red]damaged[/] {entry.path}: {entry.reason}", soft_wrap=True)
    out.print(f"{count} artefacts, {len(damaged)} damaged")
    if damaged:
        out.print("hint: run the stage again: a damaged artefact is recomputed")
        raise typer.Exit(1)


@app.command("gc")
def gc_command(
    lake: LakeOption = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Really remove; without it only say what would go.")
    ] = False,
) -> None:
    """Find what no run uses: old generations, staged leftovers, trash."""
    from grpo_core.store.maintenance import find_garbage, no_run_active, remove_garbage

    opened = open_lake(lake)
    with no_run_active(opened):
        garbage = find_garbage(opened)
        for item in garbage:
            out.print(f"{item.num_bytes / 1e6:10.1f} MB  {item.path}", soft_wrap=True)
        total = sum(item.num_bytes for item in garbage) / 1e6
        if remove:
            remove_garbage(opened, garbage)
        verb = "removed" if remove else "would be removed (--remove does it)"
        out.print(f"{len(garbage)} directories, {total:.1f} MB {verb}")
