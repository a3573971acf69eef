"""Report sections on what came out: pass@k, bands, sample completions."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from grpo_core.reporting import html
from grpo_core.reporting.html import Section
from grpo_core.reporting.pass_lines import PassLine
from grpo_core.reporting.svg import Axes, Bar, Point, Series, bar_plot, line_plot
from grpo_core.types import Band

Rows = Sequence[Mapping[str, Any]]

BAND_COLOURS = {
    Band.UNSOLVED: 6,
    Band.HARD: 1,
    Band.MEDIUM: 4,
    Band.EASY: 2,
    Band.SOLVED: 0,
    Band.UNKNOWN: 5,
}
CHECKPOINT_COLOURS = (5, 0, 2, 1, 3, 4, 6)


def pass_section(lines: Sequence[PassLine]) -> Section:
    """pass@k before and after each phase, with intervals over prompts."""
    if not lines:
        return Section("pass", "pass@k", html.paragraph("No checkpoint has been evaluated yet."))
    labels = {line.phase: line.checkpoint for line in lines}
    ks = sorted({line.k for line in lines})
    series = [
        Series(
            name=labels[phase],
            points=[
                Point(
                    ks.index(line.k) + 0.05 * (n - (len(labels) - 1) / 2),
                    line.estimate,
                    line.low,
                    line.high,
                )
                for line in lines
                if line.phase == phase
            ],
            colour=CHECKPOINT_COLOURS[n % len(CHECKPOINT_COLOURS)],
        )
        for n, phase in enumerate(sorted(labels))
    ]
    ticks = [(n, str(k)) for n, k in enumerate(ks)]
    axes = Axes("pass@k of each checkpoint", "k", "pass@k", high=1.0, ticks=ticks)
    note = (
        "Unbiased estimate per problem, averaged over problems, with 95 % bootstrap intervals over "
        "problems. The gain is the last checkpoint minus the base model, paired by problem."
    )
    plot = html.figure(
        line_plot(series, axes),
        "pass@k on the test problems",
        legend=html.legend([(line.name, line.colour) for line in series]),
    )
    return Section("pass", "pass@k", html.paragraph(note, "muted") + plot + _pass_table(lines))


def _pass_table(lines: Sequence[PassLine]) -> str:
    """One row a k: every checkpoint, then the gain of the last one."""
    labels = {line.phase: line.checkpoint for line in lines}
    columns = ["k", "problems", *(labels[phase] for phase in sorted(labels)), "gain"]
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        row = rows.setdefault(line.k, dict.fromkeys(columns, "-") | {"k": line.k})
        row["problems"] = line.num_prompts
        row[line.checkpoint] = f"{line.estimate:.3f} [{line.low:.3f}, {line.high:.3f}]"
        if line.gain is not None:
            row["gain"] = f"{line.gain:+.3f} [{line.gain_low:+.3f}, {line.gain_high:+.3f}]"
    return html.table(list(rows.values()), columns)


def band_section(rows: Rows) -> Section:
    """How many problems are in each band, after the prefilter and after each phase."""
    bars = []
    for phase in sorted({row["phase"] for row in rows}):
        own = {row["band"]: row["num_prompts"] for row in rows if row["phase"] == phase}
        parts = [(b.value, float(own[b.value]), BAND_COLOURS[b]) for b in Band if b.value in own]
        total = sum(own.values())
        bars.append(Bar(f"after phase {phase}" if phase else "prefilter", parts, f"{total:,}"))
    columns = {
        "phase": "phase",
        "band": "band",
        "num_prompts": "problems",
        "prompt_share": "share",
        "pass_rate": "pass rate",
        "truncation_rate": "truncated",
        "weight": "draw weight",
        "informative_group_rate": "mixed groups expected",
    }
    seen = {row["band"] for row in rows}
    plot = html.figure(
        bar_plot(bars, "Problems by band", unit="problems", is_share=True),
        "Problems by band",
        legend=html.legend([(b.value, BAND_COLOURS[b]) for b in Band if b.value in seen]),
        data=html.table(rows, columns),
    )
    return Section("bands", "Bands", plot)


def example_section(rows: Rows) -> Section:
    """Completions that stand for each band: best, between and worst."""
    parts = []
    for band in Band:
        own = [row for row in rows if row["band"] == band.value]
        if own:
            parts.append(f"<h3>{escape(band.value)}</h3>")
            parts += [_example(row) for row in own]
    body = "".join(parts) or html.paragraph("No prefilter samples yet.")
    return Section("examples", "Sample completions", body)


def _example(row: Mapping[str, Any]) -> str:
    kinds = {"correct": "good", "wrong": "bad", "hedged": "warn", "unparseable": "warn"}
    ending = "truncated" if row["finish_reason"] == "length" else "stopped"
    facts = (
        html.badge(row["label"], kinds.get(row["label"], "plain"))
        + html.badge(f"{row['num_completion_tokens']:,} tokens, {ending}", "plain")
        + html.badge(f"read: {html.number(row['extracted']) or 'nothing'}", "plain")
        + html.badge(f"gold: {row['gold']}", "plain")
    )
    rate = "" if row["pass_rate"] is None else f", pass rate {row['pass_rate']:.3f}"
    problem = f"<p>{escape(row['problem'])}</p>"
    source = f'<p class="muted">prompt <code>{escape(row["prompt_id"])}</code>{escape(rate)}</p>'
    return f"<article><p>{facts}</p>{problem}{source}{html.preformatted(row['text'])}</article>"
