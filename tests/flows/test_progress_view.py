import io
from typing import Any

from rich.console import Console

from flows.progress import RunProgress
from flows.sentences import duration, sentence
from flows.view import LiveView, PlainView, make_view

START = {
    "event": "run_started",
    "run": "demo",
    "attempt": 2,
    "flow_run": "mine",
    "stages": ["ingest", "train"],
}


def _at(second: float, /, **event: Any) -> dict[str, Any]:
    return {"at": f"2026-11-29T12:00:{second:06.3f}+00:00", **event}


def _step(seconds: float, done: int) -> dict[str, Any]:
    figures = {"reward": done / 10}
    progress = {"done": done, "total": 10, "unit": "steps", "tokens": 100 * done}
    return _at(
        seconds, event="progress", stage="train", label="train/1", figures=figures, **progress
    )


EVENTS = [
    _at(0, **START),
    _at(0, event="stage_started", stage="ingest", label="prompts"),
    _at(
        1,
        event="stage_finished",
        stage="ingest",
        label="prompts",
        state="Reused",
        seconds=0.5,
        tokens=0,
        figures={"rows": 1000},
    ),
    _at(1, event="stage_started", stage="train", label="train/1"),
    _step(2, 1),
    _step(4, 5),
]


def test_rate_and_time_left_come_from_the_last_half_minute() -> None:
    progress = RunProgress("mine")
    progress.apply(EVENTS)
    node = progress.nodes["train/1"]
    assert node.rate == 2.0
    assert node.seconds_left == 2.5
    assert node.tokens_per_second == 500 / 3
    assert node.figures == {"reward": 0.5}


def test_events_of_another_attempt_are_passed_over() -> None:
    progress = RunProgress("mine")
    foreign = [
        {**event, "flow_run": "other"} for event in EVENTS if event["event"] == "run_started"
    ]
    assert progress.apply([*foreign, *EVENTS[1:]]) == []
    assert not progress.has_started
    assert len(progress.apply(EVENTS)) == len(EVENTS)
    assert progress.stages == ("ingest", "train")


def test_waiting_and_finishing() -> None:
    progress = RunProgress()
    wait = _at(5, event="stage_waiting", stage="train", label="train/1", holder="run 'other'")
    end = _at(6, event="run_finished", run="demo", attempt=2, state="Stopped", error="")
    progress.apply([*EVENTS, wait])
    assert progress.nodes["train/1"].state == "Waiting"
    progress.apply([end])
    assert progress.outcome == end
    progress.close()
    assert progress.nodes["train/1"].state == "Unfinished"
    assert progress.nodes["prompts"].state == "Reused"


def test_plain_lines_without_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    progress = RunProgress()
    view = make_view(console, progress, "demo")
    assert isinstance(view, PlainView)
    with view:
        view.show(progress.apply(EVENTS), "RUNNING")
    assert stream.getvalue().splitlines() == [
        "prompts: Reused in 0.5 s, 0 tokens  rows 1000",
        "train/1: 1/10 steps  reward 0.1",
    ]


def test_a_live_table_on_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, color_system=None)
    progress = RunProgress()
    view = make_view(console, progress, "demo full")
    assert isinstance(view, LiveView)
    with view:
        view.show(progress.apply(EVENTS[:-1]), "RUNNING")
        view.show(progress.apply(EVENTS[-1:]), "RUNNING")
        view.say("a line above")
    shown = stream.getvalue()
    for part in ("demo full", "running", "Reused", "5/10 steps", "2/s", "2.5 s left", "reward 0.5"):
        assert part in shown
    assert "a line above" in shown


def test_stages_that_are_over_take_one_line() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, color_system=None)
    progress = RunProgress()
    with make_view(console, progress, "demo full") as view:
        view.show(progress.apply(EVENTS), "RUNNING")
    last_frame = stream.getvalue().rsplit("demo full", 1)[1]
    assert "ingest" in last_frame
    assert "prompts" not in last_frame
    assert "train/1" in last_frame


def test_words() -> None:
    assert sentence({"event": "note", "text": "split by hash"}) == "split by hash"
    assert sentence({"event": "run_started"}) is None
    assert [duration(s) for s in (0.42, 12.6, 185, 7800)] == [
        "0.4 s",
        "13 s",
        "3:05 min",
        "2:10:00 h",
    ]
