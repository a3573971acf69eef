import logging
import threading
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.exceptions import PrefectException

from flows import forwarding
from flows.alerts import AlertThrottle
from flows.publishing import artifact_key
from grpo_core.store.progress import ProgressLog, read_events
from grpo_core.types import StageName


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one, as far as anybody asks."""
    monkeypatch.setattr(forwarding, "server_is_there", lambda: True)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Percentages that reached Prefect."""
    percents: list[float] = []

    def create(*, progress: float, **_: Any) -> UUID:
        percents.append(progress)
        return uuid4()

    def update(_: UUID, *, progress: float) -> None:
        percents.append(progress)

    monkeypatch.setattr(forwarding, "create_progress_artifact", create)
    monkeypatch.setattr(forwarding, "update_progress_artifact", update)
    return percents


def _forwarder(tmp_path: Path) -> tuple[Any, ProgressLog]:
    log = ProgressLog(tmp_path / "progress.jsonl")
    log.emit("note", label="prompts", text="of an earlier stage")
    logger = logging.getLogger("forwarding")
    return forwarding._Forwarder(tmp_path, StageName.TRAIN, logger), log


def _progress(log: ProgressLog, done: int) -> None:
    figures = {"reward": 0.25}
    fields = {"stage": "train", "label": "train/1", "unit": "steps", "tokens": 10}
    log.emit("progress", done=done, total=8, figures=figures, **fields)


def test_only_the_latest_progress_and_each_note_are_passed_on(
    tmp_path: Path, shown: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    forwarder, log = _forwarder(tmp_path)
    for done in (1, 2, 4):
        _progress(log, done)
    log.emit("note", label="train/1", text="re-banded")
    with caplog.at_level(logging.INFO, logger="forwarding"):
        forwarder._forward()
        _progress(log, 8)
        ended = {"state": "Computed", "seconds": 3.0, "tokens": 10, "figures": {}}
        log.emit("stage_finished", stage="train", label="train/1", **ended)
        forwarder._forward()
        forwarder._forward()
    assert [record.getMessage() for record in caplog.records] == [
        "train/1: re-banded",
        "train/1: 4/8 steps  reward 0.25",
        "train/1: Computed in 3.0 s, 10 tokens",
    ]
    assert shown == [50.0, 100.0]


AWAY = [httpx.ConnectError("away"), ValueError("away"), httpx.RemoteProtocolError("away")]


@pytest.mark.parametrize("error", [*AWAY, PrefectException("away")], ids=repr)
def test_a_server_that_is_away_costs_a_warning_not_the_run(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(**_: Any) -> UUID:
        raise error

    monkeypatch.setattr(forwarding, "create_progress_artifact", fail)
    forwarder, log = _forwarder(tmp_path)
    _progress(log, 1)
    forwarder._forward()
    assert "is not in the UI: the Prefect server did not take it: away" in caplog.text


@pytest.mark.parametrize(
    ("run", "stage", "key"),
    [("tiny", "ref-logp", "tiny-ref-logp"), ("My_Run", "train/2", "my-run-train-2")],
)
def test_artifact_keys_are_what_prefect_takes(run: str, stage: str, key: str) -> None:
    assert artifact_key(run, stage) == key


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Run, kind and step of the alerts that reached Prefect."""
    found: list[tuple[str, str, int]] = []

    def emit(run: str, event: dict[str, Any]) -> None:
        found.append((run, event["kind"], event["step"]))

    monkeypatch.setattr(forwarding, "emit_alert", emit)
    return found


def _alert(log: ProgressLog, step: int) -> None:
    log.emit("alert", label="train/1", kind="kl", step=step, value=1.5, threshold=1.0)


def test_alerts_are_warnings_and_events_at_once(
    tmp_path: Path, passed_on: list[tuple[str, str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    forwarder, log = _forwarder(tmp_path)
    _alert(log, 3)
    with caplog.at_level(logging.INFO, logger="forwarding"):
        forwarder._forward()
    assert passed_on == [(tmp_path.name, "kl", 3)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ALERT at step 3: kl 1.5, bound 1" in caplog.text


def test_an_alert_at_every_step_reaches_prefect_a_few_times_and_last_at_the_end(
    tmp_path: Path, passed_on: list[tuple[str, str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    forwarder, log = _forwarder(tmp_path)
    forwarder._throttle = AlertThrottle(lambda: now[0])
    for step in range(50):
        _alert(log, step)
        if step % 5 == 4:
            forwarder._forward()
            now[0] += 5.0
    forwarder.stopped.set()
    forwarder.run()
    assert [step for _, _, step in passed_on] == [0, 30, 49]
    assert "step 30: kl 1.5, bound 1 (29 more of them since the last line)" in caplog.text
    recorded, _ = read_events(tmp_path / "progress.jsonl")
    assert sum(event["event"] == "alert" for event in recorded) == 50


def test_each_kind_and_phase_of_alerts_is_told_by_itself() -> None:
    now = [0.0]
    throttle = AlertThrottle(lambda: now[0])
    kinds = [(label, kind) for label in ("train/1", "train/2") for kind in ("kl", "entropy")]
    for label, kind in kinds:
        for step in (1, 2):
            told = throttle.offer({"label": label, "kind": kind, "step": step})
            assert [event["step"] for event in told] == ([1] if step == 1 else [])
    assert throttle.due() == []
    now[0] = 30.0
    assert [(event["label"], event["kind"]) for event in throttle.due()] == kinds
    assert throttle.due(is_end=True) == []


def test_a_stage_that_is_shown_slowly_leaves_the_next_ones_lines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered, released = threading.Event(), threading.Event()

    def hang() -> bool:
        entered.set()
        released.wait()
        return False

    monkeypatch.setattr(forwarding, "server_is_there", hang)
    monkeypatch.setattr(forwarding, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(forwarding, "get_run_logger", lambda: logging.getLogger("forwarding"))
    log = ProgressLog(tmp_path / "progress.jsonl")
    with caplog.at_level(logging.INFO, logger="forwarding"):
        with forwarding.forward_progress(tmp_path, StageName.TRAIN):
            _progress(log, 1)
            entered.wait()
            log.emit("note", label="train/1", text="of this stage")
        log.emit("note", label="audit", text="of the next stage")
        (late,) = [t for t in threading.enumerate() if t.name == f"forward-{StageName.TRAIN}"]
        released.set()
        late.join()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["train/1: 1/8 steps  reward 0.25", "train/1: of this stage"]
