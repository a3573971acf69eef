"""`grpo lake`: care of the lake."""

import typer

app = typer.Typer(help="Care of the lake: rebuild its DuckDB file.", no_args_is_help=True)
