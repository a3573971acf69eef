"""The pool: order, lazy start, killing, replacing, threads, event loops, forks."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import ConfigError
from grpo_core.rewards import Label, VerifierPool, grade
from grpo_core.rewards.dispatch import Dispatcher
from grpo_core.rewards.nursery import Worker

SYMBOLIC = (r"\boxed{\sin(2x)}", r"2\sin x\cos x", None)
POISON = (r"\boxed{\sum_{k=1}^{10^9} \frac{1}{k^2+\sin k}}", "3", None)


def test_plain_answers_start_no_process() -> None:
    with VerifierPool(workers=2) as pool:
        verdicts = pool.grade_batch([(f"#### {n}", "5", None) for n in range(50)])
        assert not pool.started
    assert [v.label for v in verdicts].count(Label.CORRECT) == 1
    assert verdicts[5].label is Label.CORRECT


def test_order_is_kept_and_equal_questions_share_a_verdict() -> None:
    rows = [("#### 5", "5", None), SYMBOLIC, ("#### 6", "5", None), SYMBOLIC]
    with VerifierPool(workers=2) as pool:
        labels = [v.label for v in pool.grade_batch(rows)]
        assert pool.started
    assert labels == [Label.CORRECT, Label.CORRECT, Label.WRONG, Label.CORRECT]


@pytest.mark.slow
def test_one_poisonous_sample_does_not_stall_the_others() -> None:
    with VerifierPool(workers=2, timeout_seconds=4.0) as pool:
        pool.grade_batch([(r"\boxed{\int_0^1 x dx}", r"\frac12", None)])
        rows = [POISON, *((rf"\boxed{{{n}\sin(2x)}}", r"\cos(2x)-1", None) for n in range(20))]
        start = time.monotonic()
        verdicts = pool.grade_batch([*rows, SYMBOLIC])
        seconds = time.monotonic() - start
    assert verdicts[0].label is Label.TIMEOUT
    assert verdicts[0].reward_raw is None
    assert all(v.label is Label.WRONG for v in verdicts[1:-1])
    assert verdicts[-1].label is Label.CORRECT
    assert max(v.seconds for v in verdicts[1:]) < 4.0
    assert seconds < 20.0  # 22 samples, one of which takes its 4 s


@pytest.mark.slow
def test_the_pool_works_on_after_a_timeout() -> None:
    with VerifierPool(workers=1, timeout_seconds=1.0) as pool:
        assert pool.grade_batch([POISON])[0].label is Label.TIMEOUT
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT


def _worker_of(pool: VerifierPool) -> Worker:
    crew = pool._dispatcher.crews["light"]
    worker = crew.borrow(wait=True)
    assert worker is not None
    crew.give_back(worker)
    return worker


def test_a_dead_worker_is_replaced() -> None:
    with VerifierPool(workers=1) as pool:
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT
        os.kill(_worker_of(pool).pid, signal.SIGKILL)
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT


def test_a_dead_nursery_is_replaced() -> None:
    with VerifierPool(workers=1) as pool:
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT
        process = pool._dispatcher.crews["light"]._nursery._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        os.kill(_worker_of(pool).pid, signal.SIGKILL)
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT


class _Doom(Dispatcher):
    """Kills workers as soon as they get a question."""

    doomed = 2

    def _send(self, work: Any, worker: Worker, job: Any, selector: Any) -> None:
        if self.doomed:
            self.doomed -= 1
            os.kill(worker.pid, signal.SIGKILL)
        super()._send(work, worker, job, selector)


def _doomed_pool(times: int) -> VerifierPool:
    pool = VerifierPool(workers=1)
    pool._dispatcher.__class__ = _Doom
    pool._dispatcher.doomed = times  # type: ignore[attr-defined]
    return pool


def test_a_sample_that_kills_two_workers_is_an_error() -> None:
    with _doomed_pool(2) as pool:
        verdict = pool.grade_batch([SYMBOLIC])[0]
        assert verdict.label is Label.ERROR
        assert verdict.reward_raw is None
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT


def test_a_sample_whose_worker_dies_once_is_tried_again() -> None:
    with _doomed_pool(1) as pool:
        assert pool.grade_batch([SYMBOLIC])[0].label is Label.CORRECT


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not enforce RLIMIT_AS")
def test_workers_cannot_take_more_memory_than_allowed_nor_write_files(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from grpo_core.rewards.limits import limit_resources\n"
        "limit_resources(1 << 30)\n"
        "try:\n    bytearray(2 << 30)\nexcept MemoryError:\n    print('bounded')\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"try:\n    open({str(tmp_path / 'x')!r}, 'w', buffering=1).write('x' * 9999 + chr(10))\n"
        "except OSError:\n    print('readonly')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["bounded", "readonly"], result.stderr


def test_works_on_threads_and_in_an_event_loop() -> None:
    found: list[Label] = []
    threads = [
        threading.Thread(target=lambda: found.append(grade(*SYMBOLIC[:2]).label)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [Label.CORRECT] * 4

    async def inside() -> Label:
        return grade(*SYMBOLIC[:2]).label

    assert asyncio.run(inside()) is Label.CORRECT


def test_works_in_a_forked_child() -> None:
    assert grade(*SYMBOLIC[:2]).label is Label.CORRECT
    child = os.fork()
    if child == 0:
        os._exit(0 if grade(*SYMBOLIC[:2]).label is Label.CORRECT else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert grade(*SYMBOLIC[:2]).label is Label.CORRECT


def test_a_script_without_a_main_guard_can_grade() -> None:
    script = f"from grpo_core.rewards import grade; print(grade(*{SYMBOLIC[:2]!r}).label)"
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {script}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.strip() == "correct", result.stderr


def test_workers_end_when_their_caller_is_killed() -> None:
    script = (
        f"import sys, time; sys.path[:0] = {sys.path!r}\n"
        "from grpo_core.rewards import VerifierPool\n"
        "pool = VerifierPool(workers=1)\n"
        f"pool.grade_batch([{SYMBOLIC!r}])\n"
        "print(pool._dispatcher.crews['light']._nursery._process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        nursery = int(process.stdout.readline())
        process.kill()
        process.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _is_running(nursery):
        time.sleep(0.05)
    assert not _is_running(nursery)


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_importing_rewards_is_cheap() -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; import grpo_core.rewards; "
        "print(*{'sympy', 'mpmath', 'math_verify', 'torch', 'numpy'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "", result.stderr


@pytest.mark.parametrize("bad", [{"workers": 0}, {"timeout_seconds": 0.0}, {"memory_bytes": 0}])
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        VerifierPool(**bad)
