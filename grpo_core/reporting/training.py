"""Report sections on training: curves over steps, lengths and truncation."""

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_core.reporting import html
from grpo_core.reporting.html import Section
from grpo_core.reporting.svg import Axes, Point, Series, Span, line_plot

Rows = Sequence[Mapping[str, Any]]

PHASE_COLOURS = (0, 2, 1, 3, 4, 6)


def training_section(steps: Rows, phases: Rows, dead: Rows) -> Section:
    """Reward, lengths, entropy, KL and dead groups over the optimiser steps."""
    if not steps:
        return Section("training", "Training", html.paragraph("No training step yet."))
    spans = _phase_spans(steps)
    curves = [
        _curve(
            steps,
            spans,
            "Reward",
            "reward",
            [
                ("reward_raw_mean", "before shaping", 0),
                ("reward_mean", "after shaping", 1),
                ("validation_pass_at_1", "validation pass@1", 2),
            ],
            low=None,
        ),
        _curve(
            steps,
            spans,
            "Completion length",
            "tokens",
            [("completion_tokens_mean", "mean length", 0), ("max_completion_tokens", "budget", 5)],
            dashed=("max_completion_tokens",),
        ),
        _curve(
            steps,
            spans,
            "Truncation",
            "share of completions",
            [("truncation_rate", "ended by length", 1)],
        ),
        _dead_curve(dead, spans),
        _curve(
            steps,
            spans,
            "Entropy",
            "nats per token",
            [
                ("policy_entropy_nats", "at temperature 1", 0),
                ("sampling_entropy_nats", "at the sampling temperature", 3),
            ],
        ),
        _curve(
            steps,
            spans,
            "KL to the reference",
            "nats per token",
            [("ref_kl_k3", "k3", 0), ("ref_kl_k1", "k1", 5)],
            low=None,
        ),
        _curve(
            steps, spans, "Clip fraction", "share of live tokens", [("clip_fraction", "clipped", 4)]
        ),
        _curve(steps, spans, "Gradient norm", "before clipping", [("grad_norm", "norm", 3)]),
    ]
    columns = {
        "phase": "phase",
        "last_step": "last step",
        "max_completion_tokens": "budget",
        "num_rollouts": "rollouts",
        "pass_rate": "pass rate",
        "reward_mean": "reward",
        "truncation_rate": "truncated",
        "completion_tokens_mean": "tokens",
        "zero_variance_fraction": "dead groups",
        "policy_entropy_last": "entropy, last",
        "ref_kl_k3_last": "KL, last",
        "effective_token_fraction": "effective tokens",
    }
    grid = f'<div class="grid-2">{"".join(curves)}</div>'
    return Section("training", "Training", html.table(phases, columns, "By phase") + grid)


def length_section(truncation: Rows, lengths: Rows) -> Section:
    """Truncation by stage and phase, and how often long answers are right."""
    phases = sorted({row["phase"] for row in lengths})
    series = [
        Series(
            f"phase {phase}",
            [
                Point((row["length_from"] + row["length_to"]) / 2, row["pass_rate"])
                for row in lengths
                if row["phase"] == phase
            ],
            PHASE_COLOURS[n % len(PHASE_COLOURS)],
        )
        for n, phase in enumerate(phases)
    ]
    axes = Axes("Pass rate by length", "length as a share of the budget", "pass rate", high=1.0)
    plot = html.figure(
        line_plot(series, axes),
        "Pass rate by length of the rollout",
        legend=html.legend([(line.name, line.colour) for line in series]),
        data=html.table(lengths, [n for n in lengths[0] if n != "run"] if lengths else []),
    )
    columns = {
        "stage": "stage",
        "phase": "phase",
        "max_completion_tokens": "budget",
        "num_completions": "completions",
        "truncation_rate": "truncated",
        "pass_rate": "pass rate",
        "pass_rate_stopped": "of stopped",
        "pass_rate_truncated": "of truncated",
        "completion_tokens_mean": "mean tokens",
        "completion_tokens_p95": "95th percentile",
    }
    return Section(
        "lengths",
        "Lengths and truncation",
        html.table(truncation, columns, "Truncation by stage and phase") + plot,
    )


def _phase_spans(steps: Rows) -> list[Span]:
    spans = []
    for phase in sorted({row["phase"] for row in steps}):
        own = [row["step"] for row in steps if row["phase"] == phase]
        spans.append(Span(f"phase {phase}", min(own) - 0.5, max(own) + 0.5))
    return spans


def _curve(
    steps: Rows,
    spans: Sequence[Span],
    title: str,
    y_label: str,
    columns: Sequence[tuple[str, str, int]],
    *,
    low: float | None = 0.0,
    dashed: Sequence[str] = (),
) -> str:
    series = [
        Series(
            name,
            [Point(row["step"], row[column]) for row in steps if row[column] is not None],
            colour,
            column in dashed,
        )
        for column, name, colour in columns
    ]
    series = [line for line in series if line.points]
    plot = line_plot(series, Axes(title, "optimiser step", y_label, low=low, spans=spans))
    data = html.table(steps, {"step": "step", **{column: name for column, name, _ in columns}})
    names = html.legend([(line.name, line.colour) for line in series])
    return html.figure(plot, title, unit=y_label, legend=names, data=data)


def _dead_curve(dead: Rows, spans: Sequence[Span]) -> str:
    kinds = [("num_solved", "all right", 0), ("num_unsolved", "all wrong", 6)]
    kinds += [("num_flat", "equal partial rewards", 4), ("num_undecided", "undecided", 5)]
    series = [
        Series(name, [Point(r["step"], r[column] / r["num_groups"]) for r in dead], colour)
        for column, name, colour in kinds
        if any(row[column] for row in dead)
    ]
    axes = Axes("Dead groups", "optimiser step", "share of groups", spans=spans)
    columns = [name for name in dead[0] if name not in ("run",)] if dead else []
    return html.figure(
        line_plot(series, axes),
        "Dead groups",
        unit="share of groups",
        legend=html.legend([(line.name, line.colour) for line in series]),
        data=html.table(dead, columns),
    )
