"""Plots draw what is finite, escape names and round their ticks."""

import itertools
import math
import xml.etree.ElementTree as ET

import pytest

from grpo_core.reporting.svg import Axes, Bar, Point, Series, Span, bar_plot, line_plot, round_ticks

AXES = Axes("Reward", "step", "reward")


def test_plots_are_well_formed_and_escaped() -> None:
    series = [Series("<a> & b", [Point(0, 0.5, 0.4, 0.6), Point(1, 0.7)], 0)]
    root = ET.fromstring(line_plot(series, AXES))
    assert root.attrib["role"] == "img"
    assert "<a> & b" in "".join(title.text or "" for title in root.iter("title"))
    assert len(list(root.iter("circle"))) == 2
    ET.fromstring(bar_plot([Bar("<x>", [("&", 3.0, 1)])], "bars"))


@pytest.mark.parametrize("y", [None, math.nan, math.inf])
def test_gaps_split_the_line(y: float | None) -> None:
    points = [Point(0, 1.0), Point(1, y), Point(2, 2.0), Point(3, 3.0)]
    svg = line_plot([Series("a", points, 0)], AXES)
    path = next(p for p in ET.fromstring(svg).iter("path")).attrib["d"]
    assert path.count("M") == 2
    assert "nan" not in svg
    assert "inf" not in svg


def test_nothing_to_draw_is_empty() -> None:
    assert line_plot([], AXES) == ""
    assert line_plot([Series("a", [Point(0, None)], 0)], AXES) == ""
    assert bar_plot([], "bars") == ""
    assert bar_plot([Bar("a", [("x", 0.0, 0)])], "bars") == ""


def test_one_point_and_flat_lines_have_a_scale() -> None:
    for points in ([Point(3, 0.0)], [Point(1, 2.0), Point(2, 2.0)]):
        root = ET.fromstring(line_plot([Series("a", points, 0)], AXES))
        ys = {float(c.attrib["cy"]) for c in root.iter("circle")}
        assert all(0 <= y <= 250 for y in ys)


def test_phases_are_named() -> None:
    axes = Axes("Reward", "step", "reward", spans=(Span("phase 1", 0, 5), Span("phase 2", 5, 9)))
    root = ET.fromstring(line_plot([Series("a", [Point(1, 1.0)], 0)], axes))
    texts = [text.text for text in root.iter("text")]
    assert {"phase 1", "phase 2"} <= set(texts)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0, 0.0003), (-2, 5), (0, 0), (3, 3), (1e6, 2e6), (0.2, 0.21)]
)
def test_ticks_cover_the_range_with_few_round_steps(low: float, high: float) -> None:
    ticks = round_ticks(low, high)
    assert ticks[0] <= low + 1e-9
    assert ticks[-1] >= high - 1e-9
    assert 3 <= len(ticks) <= 9
    steps = {round(b - a, 9) for a, b in itertools.pairwise(ticks)}
    assert len(steps) == 1
