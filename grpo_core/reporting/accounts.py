"""Report sections that account for a run: costs, audits, artefacts, configuration."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from grpo_core.reporting import html
from grpo_core.reporting.html import Section
from grpo_core.reporting.svg import Bar, bar_plot
from grpo_core.store.results import AuditResult

Rows = Sequence[Mapping[str, Any]]

DROP_COLOURS = (2, 1, 4, 3, 6, 5)


def cost_section(costs: Rows, waste: Rows) -> Section:
    """Where seconds and tokens went, and which tokens carried no loss."""
    seconds = [(row["label"], _first(row["made_seconds"], row["seconds"])) for row in costs]
    tokens = [(row["label"], _first(row["made_tokens"], row["tokens"])) for row in costs]
    second_bars = [Bar(n, [("seconds", v, 0)], html.duration(v)) for n, v in seconds if v > 0]
    token_bars = [Bar(n, [("tokens", v, 2)], f"{v:,.0f}") for n, v in tokens if v > 0]
    columns = {
        "stage": "stage",
        "label": "node",
        "state": "state",
        "seconds": "seconds",
        "tokens": "tokens",
        "made_seconds": "seconds when made",
        "made_tokens": "tokens when made",
    }
    plots = html.figure(bar_plot(second_bars, "Seconds by node"), "Seconds to make each artefact")
    plots += html.figure(
        bar_plot(token_bars, "Tokens by node"), "Tokens generated for each artefact"
    )
    return Section(
        "costs",
        "Tokens and seconds",
        f'<div class="grid-2">{plots}</div>' + _waste_figure(waste) + html.table(costs, columns),
    )


def audit_section(audits: Sequence[AuditResult]) -> Section:
    """What the audits found, offending rows first."""
    if not audits:
        return Section("audits", "Audits", html.paragraph("No audit has been run."))
    found = [audit for audit in audits if audit.num_rows]
    passed = len(audits) - len(found)
    parts = [f"<p>{html.badge(f'{passed} passed', 'good')}"]
    parts += [html.badge(f"{len(found)} with rows", "bad")] if found else []
    parts.append("</p>")
    for audit in sorted(found, key=lambda item: (item.severity, item.name)):
        kind = "bad" if audit.severity == "block" else "warn"
        parts.append(
            f"<article><h3>{escape(audit.name)} {html.badge(audit.severity, kind)}</h3>"
            + html.paragraph(f"{audit.num_rows:,} rows. {audit.why[:1].upper()}{audit.why[1:]}.")
            + html.table([_short_keys(row) for row in audit.rows[:5]], list(audit.rows[0]))
            + f"<details><summary>SQL</summary>{html.preformatted(audit.sql)}</details></article>"
        )
    names = [
        {"audit": audit.name, "severity": audit.severity, "rows": audit.num_rows, "why": audit.why}
        for audit in audits
    ]
    listing = html.table(names, ["audit", "severity", "rows", "why"])
    parts.append(f"<details><summary>All audits</summary>{listing}</details>")
    return Section("audits", "Audits", "".join(parts))


def provenance_section(nodes: Rows, events: Rows, config: Mapping[str, Any] | None) -> Section:
    """Artefacts behind the figures, controller actions, and the resolved configuration."""
    shown = [{**_short_keys(row), "also_used_by": row["also_used_by"] or ""} for row in nodes]
    columns = {
        "label": "node",
        "state": "state",
        "key": "key",
        "content": "content",
        "num_files": "files",
        "also_used_by": "also used by",
        "finished_at": "finished (UTC)",
    }
    body = html.table(shown, columns, "Artefacts")
    if events:
        body += html.table(
            events,
            ["phase", "step", "kind", "before", "after", "reason"],
            "Controller actions and alerts",
        )
    if config is not None:
        text = json.dumps(config, indent=2, ensure_ascii=False, default=str)
        body += f"<details><summary>Resolved configuration</summary>{html.preformatted(text)}"
        body += "</details>"
    return Section("provenance", "Artefacts and configuration", body)


def _waste_figure(waste: Rows) -> str:
    reasons = sorted({row["drop_reason"] for row in waste}, key=lambda name: (name != "none", name))
    colours = {name: DROP_COLOURS[n % len(DROP_COLOURS)] for n, name in enumerate(reasons)}
    bars = [
        Bar(
            f"phase {phase}",
            [
                (_reason(row), float(row["tokens"]), colours[row["drop_reason"]])
                for name in reasons
                for row in waste
                if row["phase"] == phase and row["drop_reason"] == name
            ],
            f"{sum(row['tokens'] for row in waste if row['phase'] == phase):,}",
        )
        for phase in sorted({row["phase"] for row in waste})
    ]
    return html.figure(
        bar_plot(bars, "Rollout tokens by use", unit="tokens"),
        "Rollout tokens that carried loss, and why others did not",
        legend=html.legend([("carry loss" if n == "none" else n, c) for n, c in colours.items()]),
        data=html.table(waste, ["phase", "drop_reason", "num_rollouts", "tokens", "token_share"]),
    )


def _reason(row: Mapping[str, Any]) -> str:
    return "carry loss" if row["drop_reason"] == "none" else str(row["drop_reason"])


def _first(made: float | None, spent: float) -> float:
    """What the making took, or what this attempt spent when that is not recorded."""
    return float(spent if made is None else made)


def _short_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with digests cut to 12 digits."""
    return {
        name: value[:12] if name in ("artifact_key", "key", "content") else value
        for name, value in row.items()
    }
