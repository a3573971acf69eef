"""`grpo schedule`: runs that start by the clock or after another run."""

from typing import Annotated

import typer
from rich.table import Table

from flows.commands.options import ConfigOption, PresetOption, RunOption, SetOption
from flows.console import out, say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schedule")(schedule_command)


def schedule_command(
    target: Annotated[
        str, typer.Argument(metavar="[full|STAGE]", help="What to run; without it, list.")
    ] = "",
    cron: Annotated[str, typer.Option("--cron", help='When, for example "0 3 * * *".')] = "",
    timezone: Annotated[str, typer.Option("--timezone", help="Of the cron expression.")] = "UTC",
    after: Annotated[
        str, typer.Option("--after", metavar="RUN", help="Each time RUN has been trained.")
    ] = "",
    off: Annotated[bool, typer.Option("--off", help="Remove what starts this run.")] = False,
    preset: PresetOption = "tiny",
    config: ConfigOption = None,
    run: RunOption = "",
    overrides: SetOption = None,
) -> None:
    """Let a stage start by itself, by the clock or after another run; or list what does.

    Examples: grpo schedule audit --cron "0 3 * * *" --run demo; grpo schedule evaluate --after demo
    """
    from flows.local import ensure_up
    from flows.project import this_project
    from flows.request import make_request
    from flows.scheduling import schedule_after, schedule_by_clock, unschedule

    if target and sum((bool(cron), bool(after), off)) != 1:
        raise typer.BadParameter("give one of --cron, --after RUN and --off")
    request = make_request(target or "full", preset, config, run, overrides, None)
    _ = request.config
    client = ensure_up(this_project(), say)
    if off:
        count = unschedule(client, request.target, request.run_name)
        say(f"removed {count} of {request.target}, run {request.run_name}")
    elif cron:
        schedule_by_clock(client, request, cron, timezone)
    elif after:
        schedule_after(client, request, after)
    out.print(_listing(client))


def _listing(client: object) -> Table:
    from flows.api import ApiClient
    from flows.scheduling import planned

    assert isinstance(client, ApiClient)
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("what", "run", "when", ""):
        table.add_column(title)
    for item in planned(client):
        table.add_row(item.target, item.run, item.when, "" if item.is_active else "switched off")
    return table
