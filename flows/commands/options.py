"""Options that several commands share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.console import say
from grpo_core.errors import ConfigError
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
_LAKE_HINT = "a lake is what runs were written to with --lake, or an empty directory"
OnlyRunOption = Annotated[
    str, typer.Option("--run", metavar="NAME", help="Only this run; default: all runs.")
]


def open_lake(root: Path | None, *, may_be_new: bool = False) -> "Lake":
    """The lake at `root`, or the project's, which may be still to come.

    Args:
        root: What `--lake` says.
        may_be_new: Whether the command makes a lake where there is none.

    Raises:
        ConfigError: There is no lake at `root`.
    """
    from grpo_core.store.lake import Lake

    lake = Lake(resolve_path("lake") if root is None else root.resolve())
    if not lake.root.exists() and not may_be_new:
        if root is not None:
            raise ConfigError(f"--lake: there is no {lake.root}", hint=_LAKE_HINT)
        say(f"there is no lake at {lake.root} yet")
    if lake.root.exists() and not lake.is_one():
        raise ConfigError(f"{lake.root} is no lake", hint=_LAKE_HINT)
    return lake


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` when the block ends well; a pipe or device is written to.

    Raises:
        ConfigError: There can be no such file.
    """
    if path.parts[:2] in (("/", "dev"), ("/", "proc")) or path.is_fifo():
        yield path
        return
    target = path.resolve()
    if target.is_dir() or not target.parent.is_dir():
        what = f"{path} is a directory" if target.is_dir() else f"there is no {target.parent}"
        raise ConfigError(f"--output: {what}", hint="name a file in a directory that is there")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
