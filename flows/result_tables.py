"""Result tables of a run as rows for Prefect's Artifacts page: bands, waste, pass@k, audits."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_core.types import Band, StageName

if TYPE_CHECKING:
    from grpo_core.reporting.pass_lines import PassLine
    from grpo_core.reporting.summary import BandLine, RunSummary, WasteLine
    from grpo_core.store.results import AuditResult

Rows = list[dict[str, Any]]


def tables_after(stage: StageName, summary: "RunSummary") -> dict[str, Rows]:
    """Name → rows of the tables that a stage has brought up to date; empty ones are left out."""
    tables: dict[str, Rows] = {}
    if stage in (StageName.PREFILTER, StageName.TRAIN):
        tables["bands"] = band_rows(summary.bands)
    if stage == StageName.TRAIN:
        tables["waste"] = waste_rows(summary.waste)
    if stage == StageName.EVALUATE:
        tables["pass-at-k"] = pass_rows(summary.pass_at_k)
    return {name: rows for name, rows in tables.items() if rows}


def band_rows(lines: Sequence["BandLine"]) -> Rows:
    """Problems in each band, one row a measurement."""
    measured = sorted({line.phase for line in lines})
    counts = {(line.phase, line.band): line.num_prompts for line in lines}
    return [
        {"measured": f"after phase {phase}" if phase else "prefilter"}
        | {band.value: counts.get((phase, band.value), 0) for band in Band}
        for phase in measured
    ]


def waste_rows(lines: Sequence["WasteLine"]) -> Rows:
    """Where rollout tokens went, one row a phase and reason."""
    return [
        {
            "phase": line.phase,
            "rollouts": line.use,
            "number": line.num_rollouts,
            "tokens": line.tokens,
            "share": round(line.token_share, 4),
        }
        for line in lines
    ]


def pass_rows(lines: Sequence["PassLine"]) -> Rows:
    """pass@k with its interval, one row a checkpoint and k."""
    return [
        {
            "checkpoint": line.checkpoint,
            "k": line.k,
            "problems": line.num_prompts,
            "pass@k": round(line.estimate, 4),
            "interval": f"{line.low:.3f} to {line.high:.3f}",
            "gain over base": "" if line.gain is None else _gain(line),
        }
        for line in lines
    ]


def audit_rows(results: Sequence["AuditResult"]) -> Rows:
    """One row an audit, those that found something first."""
    rows = [
        {"audit": r.name, "severity": r.severity, "rows found": r.num_rows, "why": r.why}
        for r in results
    ]
    return sorted(rows, key=lambda row: -row["rows found"])


def report_text(summary: "RunSummary", path: Path) -> str:
    """What the report artefact says: the stages in short, and where the page lies."""
    from grpo_core.reporting.summary import merge_stages

    rows = [
        f"| {line.label} | {line.state} | {line.seconds:.1f} | {line.tokens:,} |"
        for line in merge_stages(summary.stages)
    ]
    head = ["| stage | state | seconds | tokens |", "| --- | --- | ---: | ---: |"]
    return "\n".join(
        [
            f"The report of run **{summary.run}** is one HTML file that needs nothing else:",
            "",
            f"[{path}]({path.as_uri()})",
            "",
            "A browser opens such a link only when it is pasted into the address bar. `grpo report "
            f"--run {summary.run}` writes the file anew.",
            "",
            *head,
            *rows,
        ]
    )


def _gain(line: "PassLine") -> str:
    return f"{line.gain:+.3f} ({line.gain_low:+.3f} to {line.gain_high:+.3f})"
