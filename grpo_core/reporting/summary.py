"""The final summary of a run: what it cost, how hard its problems are, what it gained."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
class PassLine:
    """pass@k of one checkpoint with 95 % intervals over prompts; the gain is paired with the base.

    `gain` is None for the base; intervals are None for a single prompt.
    """

    phase: int
    checkpoint: str
    k: int
    num_prompts: int
    estimate: float
    low: float | None
    high: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None


@dataclass(frozen=True, slots=True)
class WasteLine:
    """Tokens of one drop reason in one phase; `none` are the tokens that carry loss."""

    phase: int
    drop_reason: str
    num_rollouts: int
    tokens: int
    token_share: float


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
) -> RunSummary:
    """Read the summary of a run; parts that do not exist yet are empty.

    Args:
        warehouse: Over a catalog that holds the run.
        run: Run name.
        report: Path of the HTML report, to be named at the end.
        ks: The k of pass@k to show.
    """
    passes = _rows(warehouse, "pass_at_k_table", run)
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
        pass_at_k=tuple(_pass_line(row) for row in passes if row["k"] in ks),
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


def interval(estimate: float | None, low: float | None, high: float | None, sign: str = "") -> str:
    """`0.412 [0.380, 0.440]`; without an interval the estimate alone, without either a dash."""
    if estimate is None:
        return "-"
    bounds = "" if low is None or high is None else f" [{low:{sign}.3f}, {high:{sign}.3f}]"
    return f"{estimate:{sign}.3f}{bounds}"


def half_width(
    estimate: float | None, low: float | None, high: float | None, sign: str = ""
) -> str:
    """`0.412 ±0.030`, from the side that [0, 1] does not cut."""
    if estimate is None:
        return "-"
    width = "" if low is None or high is None else f" ±{max(high - estimate, estimate - low):.3f}"
    return f"{estimate:{sign}.3f}{width}"


def _pass_line(row: dict[str, Any]) -> PassLine:
    return PassLine(
        checkpoint=row["checkpoint_label"],
        **{name: row[name] for name in PassLine.__slots__ if name != "checkpoint"},
    )


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
    checkpoints = {line.phase: line.checkpoint for line in lines}
    columns = [checkpoints[phase] for phase in sorted(checkpoints)]
    last = max(checkpoints)
    num_prompts = max(line.num_prompts for line in lines)
    table = _table(
        f"pass@k on {num_prompts:,} test problems, 95 % intervals", ("k",), [*columns, "gain"]
    )
    for k in sorted({line.k for line in lines}):
        found = {line.phase: line for line in lines if line.k == k}
        cells = [
            half_width(line.estimate, line.low, line.high) if line else "-"
            for line in (found.get(phase) for phase in sorted(checkpoints))
        ]
        end = found.get(last)
        gain = half_width(end.gain, end.gain_low, end.gain_high, "+") if end else "-"
        table.add_row(f"{k}", *cells, gain)
    return table


def _waste_table(lines: Sequence[WasteLine]) -> Table:
    table = _table(
        "where rollout tokens went", ("phase", "rollouts"), ("number", "tokens", "share")
    )
    for line in lines:
        name = "carry loss" if line.drop_reason == "none" else line.drop_reason
        table.add_row(
            f"{line.phase}",
            name,
            f"{line.num_rollouts:,}",
            f"{line.tokens:,}",
            f"{line.token_share:.3f}",
        )
    return table
