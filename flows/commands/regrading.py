"""`grpo regrade`: what the present verifier would have said of a run's completions."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from flows.commands.options import LakeOption, SetOption, open_lake, whole_file
from flows.console import out

if TYPE_CHECKING:
    from grpo_core.store.warehouse import Warehouse

_SHOWN_ROWS = 20
_SECTIONS = ("confusion", "changes", "band_changes")
_CHANGE_COLUMNS = (
    *("stage", "phase", "prompt_id", "sample_index"),
    *("label_before", "label_after", "extracted_after", "gold", "reason"),
)
_BAND_COLUMNS = (
    *("phase", "prompt_id"),
    *("band_before", "band_after", "pass_rate_before", "pass_rate_after"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("regrade")(regrade_command)


def regrade_command(
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the run.")] = "tiny",
    overrides: SetOption = None,
    output_format: Annotated[
        Literal["table", "json"], typer.Option("--format", help="table or json.")
    ] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the JSON to a file.")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Grade the saved completions of a run again and show what would change; changes nothing.

    The run's own settings grade; --set reward.verifier.…=… tries others.
    """
    from flows.reports import config_of_run
    from grpo_core.config.load import regraded_config
    from grpo_core.regrade import regrade

    opened = open_lake(lake)
    config = regraded_config(config_of_run(opened, run), overrides or ())
    with (
        nullcontext() if output is None else whole_file(output) as target,
        regrade(opened.catalog(run), run, config) as warehouse,
    ):
        if output is not None or output_format == "json":
            text = json.dumps(_document(warehouse, run), ensure_ascii=False, indent=1)
            if target is None:
                out.print(text, soft_wrap=True, highlight=False, markup=False)
            else:
                target.write_text(text + "\n", encoding="utf-8")
        else:
            _show(warehouse, run)


def _document(warehouse: "Warehouse", run: str) -> dict[str, Any]:
    sections = {name: warehouse.run_regrade(f"regrade_{name}").dicts() for name in _SECTIONS}
    return {"run": run, **sections}


def _show(warehouse: "Warehouse", run: str) -> None:
    found = _document(warehouse, run)
    total = sum(row["num_completions"] for row in found["confusion"])
    changes, bands = found["changes"], found["band_changes"]
    out.print(
        Text(
            f"run {run}: {len(changes):,} of {total:,} completions and {len(bands):,} bands change"
        )
    )
    out.print(_confusion(found["confusion"]))
    if changes:
        _show_rows("changed completions", changes, _CHANGE_COLUMNS)
    if bands:
        _show_rows("changed bands", bands, _BAND_COLUMNS)


def _confusion(rows: list[dict[str, Any]]) -> Table:
    """Stored labels down, labels under the present verifier across, per stage and phase."""
    after = sorted({row["label_after"] for row in rows})
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("stage", "phase", "stored"):
        table.add_column(title)
    for title in after:
        table.add_column(f"→ {title}", justify="right")
    counts = {
        (row["stage"], row["phase"], row["label_before"], row["label_after"]): row for row in rows
    }
    for stage, phase, before in dict.fromkeys(key[:3] for key in counts):
        cells = [
            f"{found['num_completions']:,}"
            if (found := counts.get((stage, phase, before, label)))
            else "·"
            for label in after
        ]
        table.add_row(stage, str(phase), before, *cells)
    return table


def _show_rows(title: str, rows: list[dict[str, Any]], keys: tuple[str, ...]) -> None:
    table = Table(box=None, padding=(0, 2), header_style="bold", title_justify="left")
    for key in keys:
        table.add_column(key, overflow="fold")
    for row in rows[:_SHOWN_ROWS]:
        table.add_row(*(Text(_cell(row[key])) for key in keys))
    shown = f", the first {_SHOWN_ROWS}" if len(rows) > _SHOWN_ROWS else ""
    out.print(Text(f"{title}{shown} (all with --format json)", "bold"))
    out.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else " ".join(str(value).split())[:60]
