"""A call that fails inside an engine that goes on running: nobody knows what it left behind."""

import logging
import os
import signal

import pytest
import torch
from contract import CONTEXT, EOS, assert_rows_match, random_policy, request
from random_engine import trainer_side

from grpo_core.errors import EngineGoneError, SamplerError
from grpo_core.sampling.checksum import differing
from grpo_core.sampling.vllm import VllmSampler
from grpo_core.sampling.vllm_engine import VllmEngine


@pytest.fixture
def sampler(engine, tmp_path):
    model = random_policy(seed=61)
    model.save_pretrained(tmp_path)
    if engine._failure:
        engine.restart(tmp_path)
    engine.load(tmp_path)
    return VllmSampler(engine, trainer_side(model), eos_token_ids=EOS, context_tokens=CONTEXT)


def test_a_load_that_fails_ends_the_engine_and_the_next_draw_has_a_new_one(
    engine, sampler, tmp_path, caplog
):
    asked = [request(7, seeds=range(8))]
    want, (process,) = sampler.sample(asked), engine.process_ids()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(EngineGoneError, match="empty") as first:
        engine.load(empty)
    with pytest.raises(EngineGoneError) as again:
        engine.generate([[3, 4]], [{"max_tokens": 1}])
    assert str(again.value) == str(first.value), "it is not used again"
    with caplog.at_level(logging.WARNING):
        assert_rows_match(sampler.sample(asked)[0], want[0])
    assert "died and is started anew" in caplog.text
    assert str(first.value) in caplog.text
    assert engine.process_ids() != [process]


def test_an_engine_that_dies_over_a_sync_is_replaced_and_has_the_new_weights(
    engine, sampler, monkeypatch, caplog
):
    load, killed = VllmEngine.load, []

    def load_and_die(self, directory):
        if not killed:
            killed.extend(self.process_ids())
            os.kill(killed[0], signal.SIGKILL)
        load(self, directory)

    monkeypatch.setattr(VllmEngine, "load", load_and_die)
    weights = dict(sampler._trainer.weights())
    with torch.no_grad():
        weights["model.norm.weight"].mul_(1.5)
    with caplog.at_level(logging.WARNING):
        sampler.sync(weights.items())
    assert "died and is started anew" in caplog.text
    assert engine.process_ids() != killed
    assert differing(engine.held_weights(), weights) == []


def test_a_call_that_fails_each_time_is_told_with_its_own_cause(engine, sampler):
    def work():
        with engine._guarded():
            engine._llm.collective_rpc("no_such_method")

    with pytest.raises(SamplerError, match=r"died 3 times.*no_such_method"):
        sampler._lasting(work, lambda: setattr(engine, "_failure", ""))


def test_an_answer_that_cannot_be_read_ends_the_wait(engine, sampler):
    """The client's thread that reads answers ends by it, and vLLM tells nobody who waits."""
    core = engine._llm.llm_engine.engine_core
    waiting = core.utility_results
    core.utility_results = {}  # so that the thread does not find the call that is answered
    try:
        with pytest.raises(EngineGoneError):
            engine.held_weights()
        assert not core.output_queue_thread.is_alive()
    finally:
        core.utility_results = waiting
    assert sampler.sample([request(5)])[0]
