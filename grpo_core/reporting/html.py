"""Pieces of a self-contained HTML page; everything that is text is escaped here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from grpo_core.reporting.style import STYLE
from grpo_core.reporting.tables import cell

Row = Mapping[str, Any]
SHORT_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with an anchor.

    Args:
        anchor: Id of the section.
        title: Heading, escaped when the page is made.
        body: HTML.
    """

    anchor: str
    title: str
    body: str


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the whole document; it asks for nothing from outside itself."""
    links = "".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in sections)
    bodies = "".join(
        f'<section id="{s.anchor}"><h2>{escape(s.title)}</h2>{s.body}</section>' for s in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f'<body><header><h1>{escape(title)}</h1>{lead}<nav aria-label="Sections">{links}</nav>'
        f"</header><main>{bodies}</main></body></html>\n"
    )


def figure(plot: str, caption: str, *, unit: str = "", legend: str = "", data: str = "") -> str:
    """A plot with caption, legend and its data as a table, or a line that there is no data."""
    if not plot:
        return paragraph(f"{caption}: nothing recorded.")
    details = f"<details><summary>Data</summary>{data}</details>" if data else ""
    head = escape(caption) + (f" <span>{escape(unit)}</span>" if unit else "")
    return f"<figure><figcaption>{head}</figcaption>{legend}{plot}{details}</figure>"


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Names beside the colours of a plot."""
    items = "".join(f'<li><i class="c{colour}"></i>{escape(name)}</li>' for name, colour in names)
    return f'<ul class="legend">{items}</ul>'


def table(
    rows: Sequence[Row], columns: Sequence[str] | Mapping[str, str], caption: str = ""
) -> str:
    """Rows as a table.

    Args:
        rows: Rows.
        columns: Names, or name → heading.
        caption: Text above the table.
    """
    if not rows:
        return paragraph(f"{caption or 'Rows'}: none.")
    headings = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    kinds = {name: _column_kind([row[name] for row in rows]) for name in headings}
    head = "".join(
        f'<th scope="col"{kinds[name]}>{escape(heading)}</th>' for name, heading in headings.items()
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kinds[name]}>{escape(number(row[name]))}</td>" for name in headings)
        + "</tr>"
        for row in rows
    )
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{above}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def tiles(items: Sequence[tuple[str, str, str]]) -> str:
    """Key figures: (name, figure, note)."""
    return (
        '<dl class="tiles">'
        + "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
            f'<dd class="note">{escape(note)}</dd></div>'
            for name, value, note in items
        )
        + "</dl>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    """Text as it is, with its line breaks."""
    return f"<pre>{escape(text)}</pre>"


def badge(text: str, kind: str) -> str:
    """A word on a coloured ground; `kind` is good, bad, warn or plain."""
    return f'<span class="badge {kind}">{escape(text)}</span>'


def number(value: Any) -> str:
    """A value for readers: floats with three or four digits, integers with separators."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _float(value)
    return cell(value)


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _float(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)
    if value != 0 and abs(value) < 0.001:
        return f"{value:.2e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _column_kind(values: Sequence[Any]) -> str:
    """Class of a column's cells: numbers stand right, short texts are not broken."""
    if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
        return ' class="number"'
    is_short = all(len(number(value)) <= SHORT_CHARACTERS for value in values)
    return ' class="short"' if is_short else ""
