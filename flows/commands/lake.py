"""`grpo lake`: care of the lake."""

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
