"""What vLLM must leave alone in the process that starts an engine."""

import io
import logging

import pytest
from contract import random_policy
from random_engine import SETTINGS
from test_vllm_pipeline import MINI

from grpo_core.sampling.vllm_engine import VllmEngine
from tests.e2e.conftest import new_checkout  # noqa: F401 - a fixture

NAMES = ("", "prefect", "prefect.flow_runs", "grpo_core")


class WatchedHandler(logging.StreamHandler):
    """Counts what dictConfig does to every handler that there is."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.flushes = self.closes = 0

    def flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        self.closes += 1
        super().close()


def test_an_engine_leaves_the_logging_of_its_process_alone(tmp_path):
    random_policy().save_pretrained(tmp_path)
    handlers = {name: WatchedHandler() for name in NAMES}
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    levels = {name: logging.getLogger(name).level for name in (*NAMES, "httpx")}
    factory = logging.getLogRecordFactory()
    engine = VllmEngine(tmp_path, SETTINGS)
    try:
        for name, handler in handlers.items():
            assert handler in logging.getLogger(name).handlers
            assert handler.closes == handler.flushes == 0
        assert {name: logging.getLogger(name).level for name in levels} == levels
        assert logging.getLogRecordFactory() is factory
        logging.getLogger("vllm.client").error("heard on this side")
        log = engine._log.read_text()
        assert "ERROR heard on this side" in log
        assert "INFO Initializing a V1 LLM engine" in log, "the engine's process logs there too"
    finally:
        engine.close()
        for name, handler in handlers.items():
            logging.getLogger(name).removeHandler(handler)
    logging.getLogger("vllm.client").warning("nobody listens any more")
    assert handlers[""].stream.getvalue() == ""


@pytest.mark.timeout(600)
def test_a_run_through_the_flow_samples_with_vllm(new_checkout):  # noqa: F811
    checkout = new_checkout()
    changes = [word for change in MINI for word in ("--set", change)]
    try:
        done = checkout.grpo("run", "full", "--run", "mini", *changes, timeout=500)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        attempt = checkout.latest_attempt("mini")
        assert attempt["state"] == "Completed"
        assert {node["state"] for node in attempt["nodes"]} == {"Computed"}
        audit = checkout.grpo("audit", "--run", "mini")
        assert audit.returncode == 0, audit.stdout
    finally:
        checkout.grpo("down")
