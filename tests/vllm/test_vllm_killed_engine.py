"""A sampling engine that is killed in the middle of a run, as Prefect and the user see it."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from test_vllm_pipeline import MINI

from flows.processes import descendants
from tests.e2e.conftest import new_checkout  # noqa: F401 - a fixture

DIED = "train/1: the vLLM engine died and is started anew"


def _engine_of(pid: int) -> int:
    """Process id of the engine that the flow's process started."""
    found = [
        child.pid
        for child in descendants(pid)
        if b"EngineCore" in Path(f"/proc/{child.pid}/cmdline").read_bytes()
    ]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.timeout(600)
def test_a_killed_engine_is_replaced_and_the_run_completes(new_checkout):  # noqa: F811
    checkout = replace(new_checkout(), mini=(*MINI, "train.phases.0.max_steps=24"))
    try:
        with checkout.run_in_training("shot") as (process, pid):
            os.kill(_engine_of(pid), signal.SIGKILL)
            output, _ = process.communicate(timeout=400)
        assert process.returncode == 0, output
        assert DIED in output
        assert checkout.latest_attempt("shot")["state"] == "Completed"
        ended = checkout.flow_run("shot")
        assert ended.state_type == "COMPLETED"
        audit = checkout.grpo("audit", "--run", "shot")
        assert audit.returncode == 0, audit.stdout

        wanted = {"flow_run_id": {"any_": [ended.id]}, "level": {"ge_": 20}}
        logged = checkout.client._call("POST", "/logs/filter", {"logs": wanted, "limit": 200})
        assert any(DIED in line["message"] for line in logged), logged
    finally:
        checkout.grpo("down")
