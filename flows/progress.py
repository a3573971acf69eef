"""What a run's events add up to: its nodes in order, how far and fast each is, what it measured."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

RATE_WINDOW_SECONDS = 30.0


@dataclass(slots=True)
class Node:
    """One node of the DAG as the events show it.

    Args:
        stage: Stage that it belongs to.
        label: Its label, for example `train/2`.
        started_at: Seconds since the epoch.
        state: `Running`, `Waiting`, `Reused` or `Computed`.
        text: For whom it waits, or the latest note.
        done: Units finished.
        total: Units in all; 0 while unknown.
        unit: What a unit is.
        tokens: Tokens generated so far.
        seconds: Wall seconds; final once finished.
        figures: Latest key figures.
    """

    stage: str
    label: str
    started_at: float
    state: str = "Running"
    text: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    tokens: int = 0
    seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def rate(self) -> float:
        """Units a second over the last half minute; 0 while unknown."""
        if len(self.recent) < 2:
            return 0.0
        (first_at, first), (last_at, last) = self.recent[0], self.recent[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At this rate; None while unknown."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None

    @property
    def tokens_per_second(self) -> float:
        """Over the node's whole time so far."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    def advance(self, event: dict[str, Any], at: float) -> None:
        """Take in a `progress` event."""
        self.state, self.text = "Running", ""
        self.done, self.total, self.unit = event["done"], event["total"], event["unit"]
        self.tokens = event["tokens"] or self.tokens
        self.figures |= event["figures"]
        self.seconds = at - self.started_at
        self.recent.append((at, self.done))
        while at - self.recent[0][0] > RATE_WINDOW_SECONDS:
            self.recent.popleft()


class RunProgress:
    """The run that one flow run makes; events of other attempts before it are passed over.

    Args:
        flow_run_id: Events count from the `run_started` of this flow run; empty: from any.
    """

    def __init__(self, flow_run_id: str = "") -> None:
        self.flow_run_id = flow_run_id
        self.has_started = False
        self.outcome: dict[str, Any] | None = None
        self.stages: tuple[str, ...] = ()
        self.nodes: dict[str, Node] = {}
        self.notes: list[str] = []

    def apply(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Take in events; returns those that belong to this run."""
        return [event for event in events if self._apply(event)]

    def nodes_of(self, stage: str) -> list[Node]:
        """The stage's nodes that have begun, in order."""
        return [node for node in self.nodes.values() if node.stage == stage]

    def close(self) -> None:
        """The run has ended: nothing that still seems to run does."""
        for node in self.nodes.values():
            if node.state not in ("Reused", "Computed"):
                node.state, node.text = "Unfinished", ""

    def _apply(self, event: dict[str, Any]) -> bool:
        kind = event["event"]
        if kind == "run_started" and self.flow_run_id in ("", event["flow_run"]):
            self.has_started, self.outcome = True, None
            self.stages, self.nodes = tuple(event["stages"]), {}
        if not self.has_started:
            return False
        at = datetime.fromisoformat(event["at"]).timestamp()
        if kind == "run_finished":
            self.outcome = event
        elif kind == "note" and event.get("label", "") not in self.nodes:
            self.notes.append(str(event["text"]))
        elif "label" in event:
            self._apply_to_node(kind, event, at)
        return True

    def _apply_to_node(self, kind: str, event: dict[str, Any], at: float) -> None:
        label = event["label"]
        if kind == "stage_started" or label not in self.nodes:
            self.nodes[label] = Node(event["stage"], label, at)
        node = self.nodes[label]
        if kind == "progress":
            node.advance(event, at)
        elif kind == "stage_waiting":
            node.state, node.text = "Waiting", f"for {event['holder']}"
        elif kind == "note":
            node.text = str(event["text"])
        elif kind == "stage_finished":
            node.state, node.seconds, node.tokens = (
                event["state"],
                event["seconds"],
                event["tokens"],
            )
            node.figures |= event["figures"]
            node.text = ""
