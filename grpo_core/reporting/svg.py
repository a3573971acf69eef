"""Small inline SVG plots: lines with intervals, stacked bars.

Colours come from the page's CSS (`--c0` …), so that plots follow its light or dark theme. Every
mark has a tooltip; the figure's caption and data table carry the same content as text.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeGuard

WIDTH = 640
HEIGHT = 250
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 22, 40
ROW = 30
LABEL_WIDTH = 150
MARKER_LIMIT = 60


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series; `y` None or NaN leaves a gap, `low` and `high` draw an interval."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A named line.

    Args:
        name: Name in legend and tooltips.
        points: In order of x.
        colour: Index of the page's palette.
        is_dashed: For limits and targets rather than measurements.
    """

    name: str
    points: Sequence[Point]
    colour: int
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the x axis with a name: a phase."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Axes:
    """What stands around a line plot.

    Args:
        title: Text for readers that see no picture.
        x_label: Quantity and unit.
        y_label: Quantity and unit.
        low: Lower end of y, None to fit.
        high: Upper end of y, None to fit.
        ticks: (x, text) of the x axis, None for round numbers.
        spans: Named stretches, shaded in turn.
    """

    title: str
    x_label: str
    y_label: str
    low: float | None = 0.0
    high: float | None = None
    ticks: Sequence[tuple[float, str]] | None = None
    spans: Sequence[Span] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a stacked bar plot: (name, value, colour) of each part."""

    label: str
    parts: Sequence[tuple[str, float, int]]
    note: str = ""


class _Scale:
    """Maps values to a range of pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = low, high if high > low else low + 1.0
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def line_plot(series: Sequence[Series], axes: Axes) -> str:
    """Return an SVG of lines over a common axis; empty without any finite point."""
    points = [p for line in series for p in line.points if is_finite(p.y)]
    if not points:
        return ""
    spans = [edge for span in axes.spans for edge in (span.start, span.end)]
    xs = [p.x for p in points] + spans
    ys = [value for p in points for value in (p.y, p.low, p.high) if is_finite(value)]
    y_low = min(ys) if axes.low is None else axes.low
    y_high = max(ys) if axes.high is None else axes.high
    ticks = round_ticks(y_low, y_high)
    margin = 0.0 if spans else 0.06 * (max(xs) - min(xs) or 1.0)
    x = _Scale(min(xs) - margin, max(xs) + margin, LEFT, WIDTH - RIGHT)
    y = _Scale(min(y_low, ticks[0]), max(y_high, ticks[-1]), HEIGHT - BOTTOM, TOP)
    marks = [*_spans(axes.spans, x), *_grid(ticks, y), *_x_axis(axes, x, xs)]
    for line in series:
        marks += _line(line, x, y)
    return _svg(f"{axes.title}, {axes.y_label}", HEIGHT, marks)


def bar_plot(bars: Sequence[Bar], title: str, *, unit: str = "", is_share: bool = False) -> str:
    """Return an SVG of horizontal stacked bars; empty without bars.

    Args:
        bars: Rows from top to bottom.
        title: Text for readers that see no picture.
        unit: Unit of the values, for tooltips.
        is_share: Every bar fills the width; else bars share a scale.
    """
    totals = [sum(value for _, value, _ in bar.parts) for bar in bars]
    if not bars or max(totals) <= 0:
        return ""
    marks: list[str] = []
    for row, (bar, total) in enumerate(zip(bars, totals, strict=True)):
        scale = _Scale(0.0, total if is_share else max(totals), LABEL_WIDTH, WIDTH - 90)
        top, start = row * ROW + 6, 0.0
        middle = top + (ROW - 10) / 2 + 1
        marks.append(_text(LABEL_WIDTH - 8, middle, bar.label, "name"))
        for name, value, colour in bar.parts:
            left, right = scale(start), scale(start + value)
            marks.append(_rectangle(left, top, right - left, colour, name, value, unit))
            if len(bar.parts) > 1 and right - left > 9 * len(_figure(value)) + 6:
                marks.append(_text((left + right) / 2, middle, _figure(value), f"in t{colour}"))
            start += value
        marks.append(_text(scale(start) + 6, middle, bar.note, "note"))
    return _svg(title, len(bars) * ROW + 6, marks)


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`, about `count` steps."""
    span = high - low if high > low else abs(high) or 1.0
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil((low + span) / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def is_finite(value: float | None) -> TypeGuard[float]:
    """Whether a value can be drawn."""
    return value is not None and math.isfinite(value)


def _svg(title: str, height: int, marks: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" '
        f'preserveAspectRatio="xMinYMin meet">{"".join(marks)}</svg>'
    )


def _spans(spans: Sequence[Span], x: _Scale) -> list[str]:
    marks = []
    for index, span in enumerate(spans):
        left, right = x(span.start), x(span.end)
        if index % 2 == 0:
            marks.append(
                f'<rect class="span" x="{left}" y="{TOP}" width="{round(right - left, 1)}" '
                f'height="{HEIGHT - TOP - BOTTOM}"/>'
            )
        marks.append(_text((left + right) / 2, TOP - 8, span.name, "span-name"))
    return marks


def _grid(ticks: Sequence[float], y: _Scale) -> list[str]:
    marks = []
    for tick in ticks:
        height = y(tick)
        marks.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height}" y2="{height}"/>'
        )
        marks.append(_text(LEFT - 6, height + 4, f"{tick:g}", "tick-y"))
    return marks


def _x_axis(axes: Axes, x: _Scale, xs: Sequence[float]) -> list[str]:
    ticks = axes.ticks
    if ticks is None:
        steps = round_ticks(min(xs), max(xs), 8)
        ticks = [(tick, f"{tick:g}") for tick in steps if min(xs) <= tick <= max(xs)]
    marks = [_text(x(tick), HEIGHT - BOTTOM + 16, text, "tick-x") for tick, text in ticks]
    return [*marks, _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, axes.x_label, "label-x")]


def _line(line: Series, x: _Scale, y: _Scale) -> list[str]:
    path, is_down, marks = [], False, []
    has_markers = len(line.points) <= MARKER_LIMIT and not line.is_dashed
    for p in line.points:
        if p.y is None or not math.isfinite(p.y):
            is_down = False
            continue
        path.append(f"{'L' if is_down else 'M'}{x(p.x)} {y(p.y)}")
        is_down = True
        if p.low is not None and p.high is not None and is_finite(p.low) and is_finite(p.high):
            marks.append(
                f'<line class="interval c{line.colour}" x1="{x(p.x)}" x2="{x(p.x)}" '
                f'y1="{y(p.low)}" y2="{y(p.high)}"/>'
            )
        if has_markers:
            tip = escape(f"{line.name}, {p.x:g}: {p.y:.4g}")
            marks.append(
                f'<circle class="c{line.colour}" cx="{x(p.x)}" cy="{y(p.y)}" r="3">'
                f"<title>{tip}</title></circle>"
            )
    dashed = " dashed" if line.is_dashed else ""
    return [f'<path class="line c{line.colour}{dashed}" d="{"".join(path)}"/>', *marks]


def _rectangle(
    left: float, top: float, width: float, colour: int, name: str, value: float, unit: str
) -> str:
    tip = escape(f"{name}: {_figure(value)} {unit}".strip())
    return (
        f'<rect class="part c{colour}" x="{left}" y="{top}" width="{max(round(width, 1), 0)}" '
        f'height="{ROW - 10}"><title>{tip}</title></rect>'
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{round(x, 1)}" y="{round(y, 1)}">{escape(text)}</text>'
