"""`python -m grpo_core.tiny`: make the shipped problem sets and the shipped model again."""

import logging
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

Out = Annotated[Path, typer.Option(help="Directory to write to.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")]


@app.command()
def data(out: Out, seed: Seed = 0) -> None:
    """Write train.jsonl, validation.jsonl and test.jsonl (`data/prompts` is seed 0)."""
    from grpo_core.tiny.splits import write_splits

    for split, rows in write_splits(out, seed).items():
        typer.echo(f"{out / split}.jsonl: {rows} problems")


@app.command()
def model(
    out: Out,
    seed: Seed = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps.")] = None,
) -> None:
    """Train the warm start and save it in Hugging Face format (`data/models/tiny` is seed 0)."""
    from grpo_core.tiny.warm_start import WarmStart, write_model

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    recipe = WarmStart() if steps is None else WarmStart(steps=steps)
    loss = write_model(out, recipe, seed)
    typer.echo(f"{out}: {recipe.steps} steps, loss {loss:.4f} nats a token")


if __name__ == "__main__":
    app()
