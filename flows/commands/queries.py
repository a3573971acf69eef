"""`grpo sql`, `grpo audit`, `grpo report`: questions to the lake without prefect and torch."""

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from flows.commands.options import LakeOption, OnlyRunOption, open_lake, whole_file
from flows.console import out, say, say_error, say_left_out
from grpo_core.errors import GrpoError, StageInputError

if TYPE_CHECKING:
    from grpo_core.store.results import AuditResult, SqlObject

_SHOWN_ROWS = 5


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("sql")(sql_command)
    app.command("audit")(audit_command)
    app.command("report")(report_command)


def sql_command(
    query: Annotated[
        str, typer.Argument(metavar="[QUERY]", help="One SELECT; with --list, a name.")
    ] = "",
    report: Annotated[
        str, typer.Option("--report", metavar="NAME", help="Run a query of sql/reports.")
    ] = "",
    listing: Annotated[
        bool, typer.Option("--list", help="List tables, views, reports, audits; or describe one.")
    ] = False,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="Parameter of the report."),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help="table, csv, json or parquet.")
    ] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to a file.")
    ] = None,
    run: OnlyRunOption = "",
    stage: Annotated[
        str, typer.Option("--stage", metavar="STAGE", help="Open only files of this stage.")
    ] = "",
    phase: Annotated[
        int | None,
        typer.Option("--phase", metavar="N", help="Of the training phases, open only this one."),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Query the lake; read-only, also while a run writes.

    Examples: grpo sql "select band, count(*) from run_bands group by band"; grpo sql --list
    """
    from grpo_core.reporting.tables import format_result
    from grpo_core.store.catalog import narrow
    from grpo_core.store.warehouse import Warehouse

    if sum((bool(report), listing, bool(query) and not listing)) != 1:
        raise typer.BadParameter("give a QUERY, or --report NAME, or --list")
    if params and not report:
        raise typer.BadParameter("--param is for --report NAME")
    if listing and output is not None:
        raise typer.BadParameter("--output is for what a query or report finds, not for --list")
    catalog = narrow(open_lake(lake).catalog(run or None), stage=stage, phase=phase)
    say_left_out(catalog.damaged)
    with Warehouse(catalog) as warehouse, _target(output) as target:
        if listing:
            _show_objects(warehouse.list_objects(), query)
            return
        if report:
            found = warehouse.run_report(report, _parameters(params, run))
        else:
            found = warehouse.query(query)
        width = out.width if output is None else None
        format_result(found, output_format, target, width=width)  # type: ignore[arg-type]


def _target(output: Path | None) -> "AbstractContextManager[IO[str] | Path]":
    return nullcontext(sys.stdout) if output is None else whole_file(output)


def audit_command(
    run: OnlyRunOption = "",
    deep: Annotated[bool, typer.Option("--deep", help="Recompute from the token lists.")] = False,
    lake: LakeOption = None,
) -> None:
    """Run the SQL audits; exit code 1 when a blocking one finds rows or a run cannot be audited."""
    from flows.reports import audit_of_run

    opened = open_lake(lake)
    names = [run] if run else sorted([*opened.run_names(), *opened.linked_runs()])
    if not names:
        say(f"no runs in {opened.root}")
    is_blocked = False
    for name in names:
        try:
            results = audit_of_run(opened, name, deep=deep)
        except GrpoError as error:
            if run:
                raise
            is_blocked |= _show_not_audited(name, error)
        else:
            _show_audits(name, results)
            is_blocked |= any(result.is_blocking for result in results)
    if is_blocked:
        raise typer.Exit(1)


def _show_not_audited(run: str, error: GrpoError) -> bool:
    """Say why a run of several is not audited; returns whether that counts as a finding."""
    if isinstance(error, StageInputError):  # it has just begun
        say(error.message)
        return False
    say_error(f"run {run} is not audited: {error.message}", error.hint)
    return True


def report_command(run: OnlyRunOption = "tiny", lake: LakeOption = None) -> None:
    """Write the report of a run: one HTML file that needs nothing else."""
    from flows.reports import make_report

    out.print(str(make_report(open_lake(lake), run)), soft_wrap=True, highlight=False)


def _parameters(params: list[str] | None, run: str) -> dict[str, Any]:
    """Values of --param (JSON, else text), and --run as the parameter of that name."""
    values: dict[str, Any] = {"run": run} if run else {}
    for text in params or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"--param {text}: write NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def _show_objects(objects: "list[SqlObject]", name: str) -> None:
    if name:
        found = [item for item in objects if item.name == name]
        if not found:
            raise typer.BadParameter(f"there is no table, view, report or audit {name!r}")
        _describe(found[0])
        return
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("kind", "name", "what one row is"):
        table.add_column(title, overflow="fold")
    for item in objects:
        table.add_row(Text(item.kind, "dim"), item.name, Text(item.grain))
    out.print(table)


def _describe(item: "SqlObject") -> None:
    out.print(Text(f"{item.kind} {item.name}: {item.grain}", "bold"))
    if item.why:
        out.print(Text(item.why))
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("column", "type", "meaning"):
        table.add_column(title, overflow="fold")
    for name, kind, meaning in item.columns:
        table.add_row(Text(name), Text(kind, "dim"), Text(meaning))
    for name, kind, meaning in item.params:
        table.add_row(Text(f"--param {name}="), Text(kind, "dim"), Text(meaning))
    out.print(table)


def _show_audits(run: str, results: "list[AuditResult]") -> None:
    found = [result for result in results if result.num_rows]
    passed = len(results) - len(found)
    out.print(Text(f"run {run}: {passed} of {len(results)} audits pass"), highlight=False)
    for result in found:
        style = "bold red" if result.is_blocking else "yellow"
        head = f"{result.name} ({result.severity}): {result.num_rows:,} rows"
        out.print(Text(head, style), Text(result.why))
        for row in result.rows[:_SHOWN_ROWS]:
            out.print(Text("  " + ", ".join(f"{k}={v}" for k, v in row.items())), soft_wrap=True)
