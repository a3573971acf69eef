"""Stopping after a unit, stalling, trying again: what ends the work, and what is kept."""

import fcntl
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_core.config import load_config
from grpo_core.errors import (
    ConfigError,
    DiskFullError,
    EngineGoneError,
    OutOfMemoryError,
    RunStoppedError,
    StalledError,
)
from grpo_core.planning.externals import digest_externals
from grpo_core.stages import executor, records, session
from grpo_core.stages.alerts import Alert, step_alerts
from grpo_core.stages.attempt_log import logging_to
from grpo_core.stages.context import Made, MakeContext
from grpo_core.stages.stopping import asked_to_stop, forget_stop, request_stop, stop_if_asked
from grpo_core.stages.unit_watch import UnitWatch
from grpo_core.store.progress import read_events
from grpo_core.store.schemas import TABLES

Maker = Callable[[MakeContext], Made]


def _empty() -> Made:
    return Made(tables={"prompts": TABLES["prompts"].schema.empty_table()})


def _events(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    events, _ = read_events(tmp_path / "runs" / "demo" / "progress.jsonl")
    return [event for event in events if event["event"] == kind]


def test_a_stop_ends_the_work_after_the_unit_and_the_next_attempt_goes_on(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    units: list[int] = []

    def maker(context: MakeContext) -> Made:
        for unit in range(1, 4):
            units.append(unit)
            if unit == 2:
                request_stop(tmp_path / "runs" / "demo", "ada")
                assert context.is_asked_to_stop
            context.report(unit, 3, "rows")
        return _empty()

    with pytest.raises(RunStoppedError, match="prompts after 2 of 3 rows: stopped as asked by ada"):
        attempt(maker)
    assert units == [1, 2]
    assert _events(tmp_path, "run_finished")[-1]["state"] == "Stopped"
    assert attempt(lambda context: _empty())["state"] == "Computed"
    assert asked_to_stop(tmp_path / "runs" / "demo") is None


def test_a_stop_asked_for_while_the_run_starts_is_heard(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, makes = tmp_path / "runs" / "demo", list[int]()
    directory.mkdir(parents=True)
    request_stop(directory, "eve, of the attempt before")

    def digest(config: Any, digests: Any) -> Any:
        if asked_to_stop(directory) is None:  # weights are being hashed
            request_stop(directory, "ada")
        return digest_externals(config, digests)

    def maker(context: MakeContext) -> Made:
        makes.append(1)
        return _empty()

    monkeypatch.setattr(session, "digest_externals", digest)
    with pytest.raises(RunStoppedError, match="stopped as asked by ada"):
        attempt(maker)
    assert makes == []


def test_a_stop_at_the_last_unit_still_publishes_it(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    def maker(context: MakeContext) -> Made:
        request_stop(tmp_path / "runs" / "demo", "ada")
        context.report(3, 3, "rows")
        return _empty()

    assert attempt(maker)["state"] == "Computed"


def test_who_waits_for_a_key_says_for_whom_and_can_be_stopped(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "locks" / "held.lock"
    lock.parent.mkdir()
    lock.write_text('{"holder": "run \'other\': prompts", "pid": 7, "since": "now"}')
    monkeypatch.setattr("grpo_core.store.lake.Lake.lock_path", _locks(tmp_path, lock))
    monkeypatch.setattr(
        executor, "stop_if_asked", lambda directory: _ask_then_check(tmp_path, directory)
    )
    with lock.open("r+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(RunStoppedError, match="ada"):
            attempt(lambda context: _empty())
    assert _events(tmp_path, "stage_waiting")[0]["holder"].startswith("run 'other': prompts")


def _locks(tmp_path: Path, held: Path) -> Callable[..., Path]:
    def lock_path(self: object, name: str) -> Path:
        is_of_a_key = name != "lake" and not name.startswith("run-")
        return held if is_of_a_key else tmp_path / "locks" / f"{name}.lock"

    return lock_path


def _ask_then_check(tmp_path: Path, directory: Path) -> None:
    if _events(tmp_path, "stage_waiting"):
        request_stop(directory, "ada")
    stop_if_asked(directory)


def test_a_stage_that_finishes_nothing_is_ended_with_its_last_log_lines(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    def maker(context: MakeContext) -> Made:
        context.report(1, 3, "rows")
        logging.getLogger("grpo_core.somewhere").info("waiting for the other rank")
        time.sleep(60)
        return _empty()

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(StalledError) as failure:
        attempt(maker, "execution.stall_seconds=2")
    text = str(failure.value)
    assert text.startswith("prompts failed after 1 of 3 rows: no unit was finished for 2 s")
    assert "test_stopping.py" in text
    assert "waiting for the other rank" in text
    assert "execution.stall_seconds" in failure.value.hint
    assert signal.getsignal(signal.SIGALRM) is before
    log = tmp_path / "runs" / "demo" / "logs" / "0001.log"
    assert "waiting for the other rank" in log.read_text()


def test_finished_units_hold_the_watchdog_off(attempt: Callable[..., dict[str, Any]]) -> None:
    def maker(context: MakeContext) -> Made:
        for unit in range(1, 10):  # together longer than the bound, each far below it
            time.sleep(0.5)
            context.report(unit, 10, "rows")
        return _empty()

    assert attempt(maker, "execution.stall_seconds=4")["state"] == "Computed"


def test_code_that_can_not_be_interrupted_ends_its_process(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "from pathlib import Path\n"
        "from grpo_core.stages import unit_watch\n"
        "unit_watch.HOPELESS_SECONDS = 0.3\n"
        "watch = unit_watch.UnitWatch('train/1', 0.2, Path(sys.argv[1]))\n"
        "with watch.armed():\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"  # stands for C code
        "    time.sleep(60)\n"
    )
    log = tmp_path / "attempt.log"
    done = subprocess.run([sys.executable, "-c", code, str(log)], timeout=50)
    assert done.returncode == 1
    assert "Timeout" in log.read_text()
    assert "line 8" in log.read_text()


def test_a_stall_in_a_library_names_who_called_it(tmp_path: Path) -> None:
    watch = UnitWatch("train/1", 0.3, tmp_path / "attempt.log")
    own = rf"it stood in {__file__}:\d+\n"
    with pytest.raises(StalledError, match=own), watch.armed():
        subprocess.run(["sleep", "20"], check=True)


def test_only_declared_faults_are_tried_again(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    errors: Iterator[Exception] = iter([EngineGoneError("the engine died"), ConfigError("bad")])
    calls: list[int] = []

    def maker(context: MakeContext) -> Made:
        calls.append(1)
        raise next(errors)

    with pytest.raises(ConfigError, match="prompts failed before its first unit was finished: bad"):
        attempt(maker, "execution.retries=5")
    assert len(calls) == 2
    assert "trying again (1 of 5)" in _events(tmp_path, "note")[-1]["text"]


def test_retries_come_to_an_end(attempt: Callable[..., dict[str, Any]]) -> None:
    calls: list[int] = []

    def maker(context: MakeContext) -> Made:
        calls.append(1)
        raise EngineGoneError("the engine died")

    with pytest.raises(EngineGoneError):
        attempt(maker, "execution.retries=2")
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("fault", "kind", "hint"),
    [
        (OSError(28, "No space left on device", "part-0.parquet"), DiskFullError, "gc"),
        (MemoryError(), OutOfMemoryError, "micro_batch_rows"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), OutOfMemoryError, "rows_per_batch"),
    ],
)
def test_faults_of_the_machine_are_named(
    attempt: Callable[..., dict[str, Any]], fault: Exception, kind: type[Exception], hint: str
) -> None:
    def maker(context: MakeContext) -> Made:
        raise fault

    with pytest.raises(kind, match=hint):
        attempt(maker)


def _fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(records, "write_json", refuse)


def test_a_full_disk_does_not_hide_why_the_attempt_ended(
    attempt: Callable[..., dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def maker(context: MakeContext) -> Made:
        _fill_the_disk(monkeypatch)
        raise ConfigError("the real error")

    with pytest.raises(ConfigError, match="the real error"):
        attempt(maker)
    assert "could not be recorded: [Errno 28]" in caplog.text
    assert "the real error" in _events(tmp_path, "run_finished")[-1]["error"]


def test_a_log_without_room_does_not_hide_the_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "0001.log"
    log.symlink_to("/dev/full")

    def fail() -> None:
        logging.getLogger("grpo_core.somewhere").error("does not fit")
        raise ConfigError("the real error")

    with pytest.raises(ConfigError, match="the real error"), logging_to(log):
        fail()
    assert "0001.log could not be written: [Errno 28]" in caplog.text


def test_a_disk_that_is_full_at_the_end_is_named(
    attempt: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maker(context: MakeContext) -> Made:
        _fill_the_disk(monkeypatch)
        return _empty()

    with pytest.raises(DiskFullError, match="the disk is full"):
        attempt(maker)
    last = _events(tmp_path, "run_finished")[-1]
    assert (last["state"], last["error"].split(":")[0]) == ("Failed", "the disk is full")


def test_a_bug_keeps_its_type_and_says_where(attempt: Callable[..., dict[str, Any]]) -> None:
    def maker(context: MakeContext) -> Made:
        raise ZeroDivisionError("bug")

    with pytest.raises(ZeroDivisionError) as failure:
        attempt(maker)
    assert failure.value.__notes__ == ["prompts failed before its first unit was finished"]


def test_a_request_can_be_dropped(tmp_path: Path) -> None:
    request_stop(tmp_path, "ada")
    assert asked_to_stop(tmp_path) == "ada"
    forget_stop(tmp_path)
    forget_stop(tmp_path)
    assert asked_to_stop(tmp_path) is None


def test_alerts_name_the_first_step_out_of_range() -> None:
    rows = [
        {"step": 1, "policy_entropy_nats": 0.5, "ref_kl_k3": None},
        {"step": 2, "policy_entropy_nats": 0.1, "ref_kl_k3": 3.0},
        {"step": 3, "policy_entropy_nats": 0.05, "ref_kl_k3": 4.0},
    ]
    limits = load_config(
        "tiny",
        overrides=["execution.alerts.entropy_below_nats=0.2", "execution.alerts.kl_above_nats=2"],
    ).execution.alerts
    assert list(step_alerts(rows, limits)) == [
        Alert("entropy", 2, 0.1, 0.2),
        Alert("kl", 2, 3.0, 2),
    ]
    off = limits.model_copy(update={"entropy_below_nats": 0, "kl_above_nats": 0})
    assert list(step_alerts(rows, off)) == []
