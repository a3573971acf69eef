"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grpo_core.paths import resolve_path

if TYPE_CHECKING:
    from grpo_core.store.lake import Lake

Target = Annotated[
    str, typer.Argument(metavar="[full|STAGE]", help="The whole pipeline, or one stage.")
]
PresetOption = Annotated[
    str, typer.Option("--preset", metavar="NAME", help="Shipped configuration to start from.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file laid over the preset.")
]
RunOption = Annotated[
    str, typer.Option("--run", metavar="NAME", help="Name of the run; default: the preset's.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="One setting; may be given many times."),
]
ForceOption = Annotated[
    list[str] | None,
    typer.Option("--force", metavar="STAGE", help="Compute this stage again; may be repeated."),
]
ForkOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="RUN:PHASE[:STEP]", help="Train on from the state of another run."
    ),
]
LakeOption = Annotated[
    Path | None, typer.Option("--lake", metavar="DIR", help="Root of the lake; default: lake.")
]
OnlyRunOption = Annotated[
    str, typer.Option("--run", metavar="NAME", help="Only this run; default: all runs.")
]


def open_lake(root: Path | None) -> "Lake":
    """The lake at `root`, or the project's."""
    from grpo_core.store.lake import Lake

    return Lake(resolve_path("lake") if root is None else root.resolve())
