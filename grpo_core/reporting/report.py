"""The report of a run: one HTML file with tables and plots that needs nothing else."""

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from grpo_core.errors import DataContractError
from grpo_core.reporting import accounts, html, outcomes, training
from grpo_core.reporting.html import Section
from grpo_core.reporting.pass_lines import read_pass_lines
from grpo_core.reporting.summary import RunSummary, final_summary
from grpo_core.store.results import AuditResult
from grpo_core.store.warehouse import Warehouse


def write_report(
    warehouse: Warehouse,
    run: str,
    path: Path,
    *,
    config: Mapping[str, Any] | None = None,
    audits: Sequence[AuditResult] | None = None,
) -> None:
    """Write the report beside its final place and rename it; parts not made yet are said so.

    Args:
        warehouse: Over a catalog that holds the run.
        run: Run name.
        path: The HTML file.
        config: The resolved configuration, shown at the end.
        audits: Results to show; None runs the routine audits with their defaults.

    Raises:
        DataContractError: When there is no such run.
    """
    text = render_report(warehouse, run, config=config, audits=audits)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def render_report(
    warehouse: Warehouse,
    run: str,
    *,
    config: Mapping[str, Any] | None = None,
    audits: Sequence[AuditResult] | None = None,
) -> str:
    """Return the report as HTML; arguments as in `write_report`."""

    def rows(report: str) -> list[dict[str, Any]]:
        return warehouse.run_report(report, {"run": run}).dicts()

    nodes = rows("lineage")
    if not nodes:
        raise DataContractError(f"no run is named {run!r}", hint="grpo sql 'from run_nodes'")
    results = warehouse.run_audits() if audits is None else list(audits)
    steps = rows("training_curves")
    parts: list[Section] = [
        outcomes.pass_section(read_pass_lines(warehouse, run)),
        training.training_section(steps, rows("phases"), rows("dead_groups_by_step")),
        outcomes.band_section(rows("pass_rates_by_band")),
        training.length_section(rows("truncation"), rows("reward_by_length_bucket")),
        accounts.cost_section(rows("costs_by_stage"), rows("waste_by_reason")),
        accounts.audit_section(results),
        outcomes.example_section(rows("band_examples")),
        accounts.provenance_section(nodes, rows("events_by_step"), config),
    ]
    summary = final_summary(warehouse, run, ks=(1,))
    return html.page(f"Run {run}", _lead(summary, nodes, steps, results), parts)


def _lead(
    summary: RunSummary,
    nodes: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    audits: Sequence[AuditResult],
) -> str:
    """One sentence and the key figures."""
    finished = max(str(node["finished_at"]) for node in nodes)[:16].replace("T", " ")
    line = f"Attempt {nodes[0]['attempt']}, last artefact {finished} UTC. {_verdict(summary)}"
    items = [*_gain_tiles(summary)]
    if steps:
        items.append(("Optimiser steps", f"{len(steps):,}", f"{_num_phases(steps)} phases"))
    reused = sum(node["state"] == "Reused" for node in nodes)
    items.append(
        ("Tokens generated", f"{summary.tokens:,}", f"{reused} of {len(nodes)} nodes reused")
    )
    items.append(("Time", html.duration(summary.seconds), "sum over nodes of this attempt"))
    found = [audit for audit in audits if audit.num_rows]
    note = ", ".join(audit.name for audit in found[:2]) or "no offending row"
    if audits:
        items.append(("Audits", f"{len(audits) - len(found)} of {len(audits)} pass", note))
    return f'<p class="muted">{escape(line)}</p>{html.tiles(items)}'


def _verdict(summary: RunSummary) -> str:
    """What training did to pass@1, as far as the interval allows to say."""
    if not summary.pass_at_k:
        return "No checkpoint has been evaluated yet."
    last = summary.pass_at_k[-1]
    if last.gain_low is None or last.gain_high is None:
        return "Only the base model has been evaluated."
    if last.gain_low > 0:
        return "pass@1 rose from the base model to the last phase; the interval excludes 0."
    if last.gain_high < 0:
        return "pass@1 fell from the base model to the last phase; the interval excludes 0."
    return "The change of pass@1 is not distinguishable from 0 on these test problems."


def _gain_tiles(summary: RunSummary) -> list[tuple[str, str, str]]:
    if not summary.pass_at_k:
        return []
    first, last = summary.pass_at_k[0], summary.pass_at_k[-1]
    figure = f"{first.estimate:.3f}"
    if last is not first:
        figure += f" → {last.estimate:.3f}"
    tiles = [("pass@1, base → last", figure, f"{last.num_prompts:,} test problems")]
    if last.gain is not None:
        bounds = f"{last.gain_low:+.3f} to {last.gain_high:+.3f}"
        tiles.append(("Gain, paired", f"{last.gain:+.3f}", f"95 % interval {bounds}"))
    return tiles


def _num_phases(steps: Sequence[Mapping[str, Any]]) -> int:
    return len({row["phase"] for row in steps})
