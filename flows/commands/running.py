"""`grpo run`, `watch` and `stop`: trigger a deployment, follow it, end with its own status."""

from typing import Annotated

import typer

from flows.commands.options import (
    ConfigOption,
    ForceOption,
    ForkOption,
    LakeOption,
    PresetOption,
    RunOption,
    SetOption,
    Target,
    open_lake,
)
from flows.console import out


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run")(run_command)
    app.command("watch")(watch_command)
    app.command("stop")(stop_command)


def run_command(
    target: Target = "full",
    preset: PresetOption = "tiny",
    config: ConfigOption = None,
    run: RunOption = "",
    overrides: SetOption = None,
    force: ForceOption = None,
    fork: ForkOption = "",
) -> None:
    """Run the pipeline or one stage through Prefect, show it live, print what came out.

    Exit code 0 when the run completed, 1 when not. Ctrl-C asks the run to stop resumably; a second
    Ctrl-C leaves it running and returns.
    """
    from flows.following import execute
    from flows.request import make_request

    request = make_request(target, preset, config, run, overrides, force, fork)
    raise typer.Exit(execute(request, out))


def watch_command(
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the run.")] = "tiny",
    lake: LakeOption = None,
) -> None:
    """Follow the latest attempt of a run; Ctrl-C only stops watching."""
    from flows.project import this_project
    from flows.server import client_of, find_server
    from flows.watching import watch

    server = find_server(this_project())
    client = client_of(this_project(), server) if server else None
    raise typer.Exit(watch(open_lake(lake, may_be_new=True).run_directory(run), client))


def stop_command(
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the run.")] = "tiny",
    now: Annotated[
        bool, typer.Option("--now", help="Give up the unit in work; the next run repeats it.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Stop a run after the unit in work, save its state, and return when it has ended.

    Running it again goes on where it stopped. A run that has not begun yet is cancelled.
    """
    from flows.project import this_project
    from flows.stopping import stop

    raise typer.Exit(
        stop(this_project(), open_lake(lake, may_be_new=True).run_directory(run), now=now)
    )
