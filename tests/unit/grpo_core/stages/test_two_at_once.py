"""Two runs started together on one lake share the work, in processes of their own."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_core.store.lake import Lake
from grpo_core.store.locks import hold
from grpo_core.store.maintenance import verify
from grpo_core.store.progress import iter_run_events
from grpo_core.types import StageName

Run = Callable[..., dict[str, Any]]
STAGES = (StageName.INGEST, StageName.PREFILTER, StageName.VARIANTS, StageName.REF_LOGP)


def _work(run: Run, root: Path, name: str, start: Any, results: Any) -> None:
    start.wait()
    done = run(root, name=name, stages=STAGES)
    results.put({label: (node.state, node.content) for label, node in done.items()})


@pytest.mark.slow
def test_one_computes_and_the_other_waits_and_reuses(tmp_path: Path, run_mini: Run) -> None:
    fork = multiprocessing.get_context("fork")
    start, results = fork.Barrier(2), fork.Queue()
    children = [
        fork.Process(target=_work, args=(run_mini, tmp_path, name, start, results))
        for name in ("left", "right")
    ]
    for child in children:
        child.start()
    left, right = (results.get(timeout=200) for _ in children)
    for child in children:
        child.join()
        assert child.exitcode == 0
    for label, (state, content) in left.items():
        other_state, other_content = right[label]
        assert content == other_content
        assert sorted((state, other_state)) == ["Computed", "Reused"], label
    assert verify(Lake(tmp_path)).damaged == []
    events = [
        event["event"]
        for name in ("left", "right")
        for event in iter_run_events(tmp_path / "runs" / name / "progress.jsonl")
    ]
    assert "stage_waiting" in events


def _hold_for_ever(path: Path, held: Any) -> None:
    with hold(path, "a run that dies"):
        held.set()
        signal.pause()


def test_the_lock_of_a_dead_holder_is_free(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    held, path = fork.Event(), tmp_path / "key.lock"
    child = fork.Process(target=_hold_for_ever, args=(path, held))
    child.start()
    assert held.wait(20)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    waited: list[str] = []
    with hold(path, "the next run", on_wait=waited.append):
        assert waited == []
