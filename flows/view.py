"""Shows a run while it happens: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterable
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from flows.progress import Node, RunProgress
from flows.sentences import duration, figures_text, sentence

PLAIN_INTERVAL_SECONDS = 5.0
_MARKS = {"Reused": ("=", "cyan"), "Computed": ("+", "green"), "Waiting": ("~", "yellow")}


class RunView(Protocol):
    """What `follow` needs of a view."""

    def __enter__(self) -> "RunView": ...

    def __exit__(self, *details: object) -> None: ...

    def show(self, events: Iterable[dict[str, Any]], state: str) -> None:
        """Show new events of the run and the state that Prefect reports."""

    def say(self, line: str) -> None:
        """Show a line of our own."""


def make_view(console: Console, progress: RunProgress, title: str) -> "RunView":
    """The live view on a terminal, else the plain one."""
    return LiveView(console, progress, title) if console.is_terminal else PlainView(console)


class PlainView:
    """One line an event; progress of a node at most each few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_at: dict[str, float] = {}

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def show(self, events: Iterable[dict[str, Any]], state: str) -> None:
        """Print what is worth a line."""
        for event in events:
            if event["event"] == "progress" and not self._is_due(event):
                continue
            if (line := sentence(event)) is not None:
                self.say(line)

    def say(self, line: str) -> None:
        """Print one line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _is_due(self, event: dict[str, Any]) -> bool:
        now = time.monotonic()
        if (
            now - self._shown_at.get(event["label"], -PLAIN_INTERVAL_SECONDS)
            < PLAIN_INTERVAL_SECONDS
        ):
            return False
        self._shown_at[event["label"]] = now
        return True


class LiveView:
    """A table that redraws itself: stages, bars with rate and time left, key figures."""

    def __init__(self, console: Console, progress: RunProgress, title: str) -> None:
        self._progress = progress
        self._title = title
        self._state = "scheduled"
        self._started_at = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=8)

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._live.refresh()
        self._live.stop()

    def show(self, events: Iterable[dict[str, Any]], state: str) -> None:
        """Take over the state; the events are in the shared progress already."""
        self._state = state.lower()

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        elapsed = duration(time.monotonic() - self._started_at)
        head = Text.assemble((self._title, "bold"), f"  {self._state}  {elapsed}")
        return Group(head, nodes_table(self._progress, self._spinner))


def nodes_table(progress: RunProgress, spinner: Spinner) -> Table:
    """One row a stage that is over or to come, one row a node of the stage in work."""
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    begun = [stage for stage in progress.stages if progress.nodes_of(stage)]
    for stage in progress.stages:
        nodes = progress.nodes_of(stage)
        if not nodes:
            table.add_row("", Text(stage, "dim"), "", "")
        elif stage == begun[-1]:
            for node in nodes:
                table.add_row(*_node_row(node, spinner))
        else:
            table.add_row(*_stage_row(stage, nodes))
    return table


def _stage_row(stage: str, nodes: list[Node]) -> tuple[RenderableType, ...]:
    state = "Reused" if all(node.state == "Reused" for node in nodes) else "Computed"
    mark, style = _MARKS[state]
    what = Text(state, style).append(f"  {duration(sum(n.seconds for n in nodes))}", "default")
    telling = [node for node in nodes if node.label.startswith(stage)] or nodes
    return Text(mark, style), stage, what, Text(figures_text(telling[-1].figures), "dim")


def _node_row(node: Node, spinner: Spinner) -> tuple[RenderableType, ...]:
    if node.state != "Running":
        mark, style = _MARKS.get(node.state, ("-", "red"))
        what = Text(f"{node.state} {node.text}".strip(), style)
        if node.state != "Waiting":
            what.append(f"  {duration(node.seconds)}", "default")
        return Text(mark, style), node.label, what, Text(figures_text(node.figures), "dim")
    if not node.total:
        return spinner, node.label, node.text or "starting", ""
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=node.total, completed=node.done, width=24),
        f"{node.done}/{node.total} {node.unit}",
        _speed(node),
    )
    return spinner, node.label, bar, Text(figures_text(node.figures), "dim")


def _speed(node: Node) -> str:
    if node.seconds_left is None:
        return ""
    parts = [f"{node.rate:.2g}/s", f"{duration(node.seconds_left)} left"]
    if node.tokens:
        parts.append(f"{node.tokens_per_second:,.0f} tokens/s")
    return "  ".join(parts)
