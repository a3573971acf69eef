"""Options that several commands share."""

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.console import say
from grpo_core.errors import ConfigError
from grpo_core.paths import real_path, resolve_path

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
_LAKE_HINT = "a lake is the directory that runs write to (execution.lake), or an empty one"
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

    lake = Lake(resolve_path("lake") if root is None else real_path(root))
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
    from grpo_core.store.files import hidden_stem, naming_errors

    temporary = None
    with naming_errors(f"--output: {path}"):
        target = _real_place(path)
        if not _is_written_in_place(path):
            temporary = target.with_name(f"{hidden_stem(target.name)}.{uuid.uuid4().hex[:8]}")
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    if temporary is None:
        yield path
        return
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _real_place(path: Path) -> Path:
    """Where a file lies or is to come, behind all links.

    Raises:
        ConfigError: Something else is there, or no directory.
        OSError: Nothing can be there.
    """
    target = Path(os.path.realpath(path))
    what = ""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            what = f"there is no {target.parent}"
        elif _is_descriptor(path):
            what = f"there is no {path}"
    else:
        if stat.S_ISDIR(mode):
            what = f"{path} is a directory"
        elif stat.S_ISSOCK(mode):
            what = f"{path} is a socket"
    if what:
        raise ConfigError(f"--output: {what}", hint="name a file in a directory that is there")
    return target


def _is_written_in_place(path: Path) -> bool:
    """Whether a pipe, a device or a file that a process has open is there."""
    return path.exists() and (not path.is_file() or _is_descriptor(path))


def _is_descriptor(path: Path) -> bool:
    """Whether a name leads through `/proc`, as `/dev/stdout` does."""
    while True:
        path = Path(os.path.realpath(path.parent), path.name)
        if path.parts[:2] == ("/", "proc"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / os.readlink(path)
