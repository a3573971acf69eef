"""`grpo plan`: what would run and why; runs nothing, imports neither torch nor prefect."""

from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from flows.commands.options import (
    ConfigOption,
    ForceOption,
    ForkOption,
    PresetOption,
    RunOption,
    SetOption,
    Target,
)
from flows.console import out

if TYPE_CHECKING:
    from grpo_core.planning import PlanRow

_STYLES = {"HIT": "green", "MISS": "yellow", "PARTIAL": "cyan", "PENDING": "dim"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan_command)


def plan_command(
    target: Target = "full",
    preset: PresetOption = "tiny",
    config: ConfigOption = None,
    run: RunOption = "",
    overrides: SetOption = None,
    force: ForceOption = None,
    fork: ForkOption = "",
    strict_versions: Annotated[
        bool, typer.Option("--strict-versions", help="Other library versions make a MISS.")
    ] = False,
    why_fields: Annotated[
        bool, typer.Option("--why-fields", help="List each setting with the artefacts it keys.")
    ] = False,
) -> None:
    """Say what would be reused, continued or computed, and why; run nothing."""
    if why_fields:
        out.print(_fields_table())
        return
    from flows.request import make_request
    from grpo_core.models.context import check_budgets
    from grpo_core.planning import build_graph, plan
    from grpo_core.planning.externals import digest_externals, model_directory
    from grpo_core.planning.fork import resolve_fork
    from grpo_core.stages import RunRecords, lake_root
    from grpo_core.store.lake import Lake

    request = make_request(target, preset, config, run, overrides, force, fork)
    lake = Lake(lake_root(request.config))
    point = resolve_fork(lake, fork) if fork else None
    check_budgets(request.config, model_directory(request.config.model.path))
    rows = plan(
        build_graph(request.config, digest_externals(request.config, lake.digests), point),
        lake,
        RunRecords(lake.run_directory(request.run_name)).pins(),
        force=request.force,
        stages=request.stages,
        strict_versions=strict_versions,
    )
    out.print(_table(rows))


def _table(rows: "list[PlanRow]") -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("stage", "node", "state"):
        table.add_column(title, no_wrap=True)
    table.add_column("why", overflow="fold")
    shown = ""
    for row in rows:
        stage = "" if row.stage == shown else str(row.stage)
        shown = str(row.stage)
        state = Text(row.state.value, _STYLES[row.state.value])
        table.add_row(stage, row.label, state, Text(_why(row)))
    return table


def _fields_table() -> Table:
    from grpo_core.config.document import settings

    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("setting", no_wrap=True)
    table.add_column("a change makes anew", overflow="fold")
    for setting in settings():
        kinds = Text(", ".join(setting.kinds)) if setting.kinds else Text("execution", "dim")
        table.add_row(setting.path, kinds)
    table.caption = (
        "execution: in no key (seed acts through prefilter, variants, train, evaluate); "
        "by digest: the content it points to is an input; docs/config.md has defaults and meanings"
    )
    return table


def _why(row: "PlanRow") -> str:
    """Reasons, one a line; what merely waits is said briefly."""
    text = "\n".join(row.reasons)
    return shorten(text, 72, placeholder=" …") if row.state.value == "PENDING" else text
