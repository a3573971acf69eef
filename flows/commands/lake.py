"""`grpo lake`: care of the lake."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LakeOption, open_lake
from flows.console import out, say, say_left_out
from flows.sentences import size
from grpo_core.paths import real_path

if TYPE_CHECKING:
    from grpo_core.store.lake import Lake

_RECOMPUTED = "run the stage again: what is damaged is recomputed, and only that"

app = typer.Typer(help="Care of the lake.", no_args_is_help=True)


@app.callback()
def lake_command() -> None:
    """Care of the lake."""


def _name_foreign_caches(lake: "Lake") -> None:
    """Say which reference caches a command leaves alone."""
    for path in lake.foreign_caches():
        out.print(
            f"{path.relative_to(lake.root)} is left alone: another release's cache version",
            soft_wrap=True,
        )


def _tell_waiting(holder: str) -> None:
    say(f"waiting for {holder}")


def _refresh_database(lake: "Lake") -> None:
    """Let `lake.duckdb` name the files that are there now; waits while the lake is cleaned."""
    with lake.in_use("grpo lake refresh", on_wait=_tell_waiting):
        _write_database(lake)


def _write_database(lake: "Lake") -> None:
    from grpo_core.store.lake_database import write_lake_database

    catalog = lake.catalog()
    say_left_out(catalog.damaged)
    write_lake_database(catalog, lake.database)


def _name_left_out(paths: Iterable[str]) -> None:
    for path in paths:
        out.print(f"left out: {path}", soft_wrap=True, highlight=False)


@app.command("refresh")
def refresh_command(lake: LakeOption = None) -> None:
    """Rebuild lake.duckdb, the views for other DuckDB clients; needed after moving the lake."""
    opened = open_lake(lake)
    opened.root.mkdir(parents=True, exist_ok=True)
    _refresh_database(opened)
    out.print(str(opened.database), soft_wrap=True, highlight=False)


@app.command("verify")
def verify_command(lake: LakeOption = None) -> None:
    """Hash every file of every artefact anew; exit code 1 when one is damaged or missing."""
    from grpo_core.store.maintenance import verify

    opened = open_lake(lake)
    _name_foreign_caches(opened)
    found = verify(opened)
    for line in found.older:
        out.print(line, soft_wrap=True, highlight=False)
    for hint, entries in groupby(found.damaged, key=attrgetter("hint")):
        for entry in entries:
            state = "unreadable" if entry.is_unreadable else "damaged"
            out.print(f"[red]{state}[/] {entry.path}: {entry.reason}", soft_wrap=True)
        out.print(f"hint: {hint or _RECOMPUTED}", soft_wrap=True, highlight=False)
    num_unreadable = sum(entry.is_unreadable for entry in found.damaged)
    out.print(
        f"{found.num_artifacts} artefacts and {found.num_parts} parts of reference caches, "
        f"{len(found.damaged) - num_unreadable} damaged"
        + (f", {num_unreadable} unreadable" if num_unreadable else "")
    )
    if found.damaged:
        raise typer.Exit(1)


@app.command("restore")
def restore_command(
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Run to restore.")],
    lake: LakeOption = None,
) -> None:
    """Make again what a run has lost: damaged records of attempts, rows of the reference cache."""
    from grpo_core.stages.restore import restore_records, restore_rows

    opened = open_lake(lake)
    mended = restore_records(opened, run)
    for line in mended:
        out.print(line, soft_wrap=True, highlight=False)
    count = 0
    try:
        count = restore_rows(opened, run, on_wait=_tell_waiting)
    finally:
        if count or mended:
            _refresh_database(opened)
    out.print(f"{count} reference rows scored again")


@app.command("gc")
def gc_command(
    lake: LakeOption = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Really remove; without it only say what would go.")
    ] = False,
    foreign: Annotated[
        bool,
        typer.Option("--foreign", help="Also caches of older releases that no run points to."),
    ] = False,
) -> None:
    """Find what no run uses: old generations, unused reference caches, leftovers, trash."""
    from grpo_core.store.foreign_caches import find_foreign_caches
    from grpo_core.store.maintenance import find_garbage, no_run_active, remove_garbage

    opened = open_lake(lake)
    with no_run_active(opened, is_reading=not remove):
        for cache in find_foreign_caches(opened):
            kept = f"kept for {cache.kept_for}" if cache.kept_for else "used by no run: --foreign"
            out.print(
                f"another release's cache: {size(cache.num_bytes)}  {cache.path}  "
                f"({cache.reference}; last written {cache.last_written}; {kept})",
                soft_wrap=True,
                highlight=False,
            )
        garbage = find_garbage(opened, with_foreign=foreign)
        for item in garbage:
            out.print(f"{size(item.num_bytes):>10}  {item.path}", soft_wrap=True)
        total = size(sum(item.num_bytes for item in garbage))
        if remove:
            opened.database.unlink(missing_ok=True)  # killed here, the next stage makes it again
            try:
                remove_garbage(opened, garbage)
            finally:
                _write_database(opened)
        verb = "removed" if remove else "would be removed (--remove does it)"
        out.print(f"{len(garbage)} items, {total} {verb}")


@app.command("compact")
def compact_command(lake: LakeOption = None) -> None:
    """Merge the parts of the reference caches into few large ones; safe while runs are at work."""
    from grpo_core.store.maintenance import compact

    opened = open_lake(lake)
    _name_foreign_caches(opened)
    caches = compact(opened)
    for fingerprint, before, after in caches:
        out.print(f"{fingerprint}: {before} parts before, {after} after")
    if not caches:
        out.print("no reference caches")
    else:
        _refresh_database(opened)


@app.command("export")
def export_command(
    target: Annotated[Path, typer.Argument(metavar="FILE.tar", help="Archive to write.")],
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Run to export.")],
    lake: LakeOption = None,
) -> None:
    """Write a run with all that it needs into one file: artefacts, reference rows, records."""
    from grpo_core.store.exchange import export_run

    done = export_run(open_lake(lake), run, real_path(target))
    _name_left_out(done.left_out)
    out.print(
        f"{target}: run {done.run}, {done.num_artifacts} artefacts, {done.num_cache_rows} "
        f"reference rows, {size(done.num_bytes)}",
        soft_wrap=True,
    )


@app.command("import")
def import_command(
    source: Annotated[Path, typer.Argument(metavar="FILE.tar", help="Archive to read.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Another run name.")] = "",
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Also a run whose settings or files let code run here."),
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Bring an exported run into the lake; every file is checked before any is in it."""
    from grpo_core.store.exchange import import_run

    opened = open_lake(lake, may_be_new=True)
    done = import_run(opened, real_path(source), name=name, allow_code=allow_code)
    _refresh_database(opened)
    _name_left_out(done.left_out)
    out.print(
        f"run {done.run}: {done.num_artifacts} artefacts and {done.num_cache_rows} reference rows "
        f"were new, {size(done.num_bytes)} checked",
        soft_wrap=True,
    )
