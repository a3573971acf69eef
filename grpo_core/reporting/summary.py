"""The final summary of a run: what it cost, how hard its problems are, what it gained."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grpo_core.reporting.pass_lines import PassLine, read_pass_lines
from grpo_core.store.warehouse import Warehouse
from grpo_core.types import Band

DEFAULT_KS = (1, 4, 8)


@dataclass(frozen=True, slots=True)
class StageLine:
    """One node of the DAG in the latest attempt: `state` is Computed or Reused."""

    stage: str
    label: str
    state: str
    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class BandLine:
    """Prompts in one band after the prefilter (phase 0) or a phase."""

    phase: int
    band: str
    num_prompts: int
    pass_rate: float | None


@dataclass(frozen=True, slots=True)
class WasteLine:
    """Tokens of one drop reason in one phase; `none` are the tokens that carry loss."""

    phase: int
    drop_reason: str
    num_rollouts: int
    tokens: int
    token_share: float

    @property
    def use(self) -> str:
        """What became of the tokens, in words: `carry loss` or the drop reason."""
        return "carry loss" if self.drop_reason == "none" else self.drop_reason


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that the end of a run says.

    Args:
        run: Run name.
        stages: Nodes in order.
        bands: Bands in order of phase and difficulty.
        pass_at_k: By k, then base and phases.
        waste: By phase, most tokens first.
        report: Where the HTML report is.
    """

    run: str
    stages: tuple[StageLine, ...]
    bands: tuple[BandLine, ...]
    pass_at_k: tuple[PassLine, ...]
    waste: tuple[WasteLine, ...]
    report: Path | None

    @property
    def seconds(self) -> float:
        """Wall seconds of the latest attempt."""
        return sum(line.seconds for line in self.stages)

    @property
    def tokens(self) -> int:
        """Tokens that the latest attempt generated."""
        return sum(line.tokens for line in self.stages)


def final_summary(
    warehouse: Warehouse,
    run: str,
    *,
    report: Path | None = None,
    ks: Sequence[int] = DEFAULT_KS,
    confidence: float = 0.95,
) -> RunSummary:
    """Read the summary of a run; parts that do not exist yet are empty.

    Args:
        warehouse: Over a catalog that holds the run.
        run: Run name.
        report: Path of the HTML report, to be named at the end.
        ks: The k of pass@k to show.
        confidence: Level of the intervals.
    """
    return RunSummary(
        run=run,
        stages=tuple(
            StageLine(*(row[name] for name in ("stage", "label", "state", "seconds", "tokens")))
            for row in _rows(warehouse, "costs_by_stage", run)
        ),
        bands=tuple(
            BandLine(*(row[name] for name in ("phase", "band", "num_prompts", "pass_rate")))
            for row in _rows(warehouse, "pass_rates_by_band", run)
        ),
        pass_at_k=read_pass_lines(warehouse, run, ks=ks, confidence=confidence),
        waste=tuple(
            WasteLine(*(row[name] for name in WasteLine.__slots__))
            for row in _rows(warehouse, "waste_by_reason", run)
        ),
        report=report,
    )


def render_summary(summary: RunSummary, console: Console) -> None:
    """Print the summary as tables."""
    tables = [_stage_table(summary)]
    tables += [_band_table(summary.bands)] if summary.bands else []
    tables += [_pass_table(summary.pass_at_k)] if summary.pass_at_k else []
    tables += [_waste_table(summary.waste)] if summary.waste else []
    for table in tables:
        console.print(table)
        console.print()
    if summary.report is not None:
        console.print(Text(f"report  {summary.report}"), soft_wrap=True)


def merge_stages(lines: Sequence[StageLine]) -> list[StageLine]:
    """One line a stage, and one a training phase: Reused only when all its nodes are."""
    merged: dict[str, StageLine] = {}
    for line in lines:
        phase = line.label.partition("/")[2]
        name = f"train/{phase}" if line.stage == "train" and phase else line.stage
        before = merged.get(name, StageLine(line.stage, name, "Reused", 0.0, 0))
        is_reused = before.state == line.state == "Reused"
        merged[name] = StageLine(
            stage=line.stage,
            label=name,
            state="Reused" if is_reused else "Computed",
            seconds=before.seconds + line.seconds,
            tokens=before.tokens + line.tokens,
        )
    return list(merged.values())


def _rows(warehouse: Warehouse, report: str, run: str) -> list[dict[str, Any]]:
    return warehouse.run_report(report, {"run": run}).dicts()


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False
    )
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _stage_table(summary: RunSummary) -> Table:
    table = _table(f"run {summary.run}", ("stage", "state"), ("seconds", "tokens"))
    for line in merge_stages(summary.stages):
        style = "green" if line.state == "Reused" else ""
        table.add_row(
            line.label, Text(line.state, style), f"{line.seconds:.1f}", f"{line.tokens:,}"
        )
    table.add_section()
    table.add_row("total", "", f"{summary.seconds:.1f}", f"{summary.tokens:,}")
    return table


def _band_table(lines: Sequence[BandLine]) -> Table:
    bands = [band.value for band in Band if any(line.band == band.value for line in lines)]
    table = _table("prompts by band", ("measured",), bands)
    for phase in sorted({line.phase for line in lines}):
        counts = {line.band: line.num_prompts for line in lines if line.phase == phase}
        name = f"after phase {phase}" if phase else "prefilter"
        table.add_row(name, *(f"{counts.get(band, 0):,}" for band in bands))
    return table


def _pass_table(lines: Sequence[PassLine]) -> Table:
    """A column a checkpoint; each cell is the estimate over its interval."""
    checkpoints = {line.phase: line.checkpoint for line in lines}
    last = max(checkpoints)
    num_prompts = max(line.num_prompts for line in lines)
    columns = [checkpoints[phase] for phase in sorted(checkpoints)]
    title = f"pass@k on {num_prompts:,} test problems, with intervals"
    table = _table(title, ("k",), [*columns, "gain"])
    for k in sorted({line.k for line in lines}):
        found = {line.phase: line for line in lines if line.k == k}
        cells = [_estimate_cell(found.get(phase)) for phase in sorted(checkpoints)]
        table.add_row(f"{k}", *cells, _gain_cell(found.get(last)))
    return table


def _estimate_cell(line: PassLine | None) -> str:
    return "-" if line is None else f"{line.estimate:.3f}\n{line.low:.3f}-{line.high:.3f}"


def _gain_cell(line: PassLine | None) -> str:
    if line is None or line.gain is None:
        return "-"
    return f"{line.gain:+.3f}\n{line.gain_low:+.3f} to {line.gain_high:+.3f}"


def _waste_table(lines: Sequence[WasteLine]) -> Table:
    table = _table(
        "where rollout tokens went", ("phase", "rollouts"), ("number", "tokens", "share")
    )
    for line in lines:
        table.add_row(
            f"{line.phase}",
            line.use,
            f"{line.num_rollouts:,}",
            f"{line.tokens:,}",
            f"{line.token_share:.3f}",
        )
    return table
