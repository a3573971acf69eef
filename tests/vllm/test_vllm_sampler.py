import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from contract import CONTEXT, EOS, SamplerContract, assert_rows_match, random_policy, request
from letters import letter_tokenizer
from random_engine import SETTINGS, trainer_side

from grpo_core.errors import SamplerError
from grpo_core.sampling.stopping import stop_check
from grpo_core.sampling.vllm import VllmSampler
from grpo_core.sampling.vllm_engine import VllmEngine
from grpo_core.types import FinishReason


def make_sampler(engine, model, directory, *, eos_token_ids=EOS, context=CONTEXT, stop=()):
    model.save_pretrained(directory)
    engine.load(directory)
    return VllmSampler(
        engine,
        trainer_side(model),
        eos_token_ids=eos_token_ids,
        context_tokens=context,
        stop=stop,
    )


def perturb(model) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)


class TestVllmSampler(SamplerContract):
    @pytest.fixture(autouse=True)
    def shared_engine(self, engine, tmp_path):
        self._engine, self._directory = engine, tmp_path

    def make(self, model, *, eos_token_ids=EOS, context=CONTEXT):
        return make_sampler(
            self._engine, model, self._directory, eos_token_ids=eos_token_ids, context=context
        )


def test_the_prompt_is_computed_once_for_a_group(engine, tmp_path):
    make_sampler(engine, random_policy(), tmp_path)
    arguments = {"max_tokens": 1, "temperature": 1.0, "detokenize": False}
    import vllm

    prompt = {"prompt_token_ids": [5 + n % 40 for n in range(70)]}
    outputs = engine._llm.generate(
        [prompt] * 8, [vllm.SamplingParams(seed=n, **arguments) for n in range(8)], use_tqdm=False
    )
    cached = [output.num_cached_tokens for output in outputs]
    assert cached[0] == 0
    assert min(cached[1:]) == 64  # two whole blocks of 32


def test_a_stop_string_ends_a_completion_where_the_hf_sampler_ends_it(engine, tmp_path):
    stop = ["7", "ab", "x=", ",,"]
    tokenizer = letter_tokenizer()
    sampler = make_sampler(engine, random_policy(seed=5), tmp_path, stop=stop)
    (rows,) = sampler.sample([request(6, seeds=range(256), budget=40)])
    check, ends = stop_check(tokenizer, stop), set()
    for row in rows:
        ids = torch.tensor([row.token_ids])
        first = next((n for n in range(1, ids.shape[1] + 1) if check(ids[:, :n]).item()), None)
        assert first in (None, len(row.token_ids))
        if first is not None:
            assert row.finish_reason is FinishReason.STOP
            text = tokenizer.decode(row.token_ids)
            ends |= {string for string in stop if text.endswith(string)}
    assert len(ends) >= 2


def test_sync_refuses_weights_of_another_model(engine, tmp_path):
    model = random_policy()
    sampler = make_sampler(engine, model, tmp_path)
    pairs = dict(model.state_dict())
    whole = pairs.pop("model.norm.weight")
    with pytest.raises(SamplerError, match=r"1 missing \(model.norm.weight\)"):
        sampler.sync(pairs.items())
    pairs["model.norm.weight"] = whole[:-1]
    with pytest.raises(SamplerError, match=r"1 of another shape \(model.norm.weight\)"):
        sampler.sync(pairs.items())


def test_an_engine_with_other_weights_is_refused(engine, tmp_path):
    model = random_policy(seed=11)
    sampler = make_sampler(engine, model, tmp_path)
    perturb(model)
    engine.is_reloaded = False  # else it would try a new engine first
    with pytest.raises(SamplerError, match=r"does not hold the trainer's weights.*\d nats"):
        sampler._proven()


def test_a_temperature_that_vllm_would_raise_is_refused(engine, tmp_path):
    sampler = make_sampler(engine, random_policy(), tmp_path)
    with pytest.raises(SamplerError, match=r"request 0: temperature 0.005"):
        sampler.sample([request(4, temperature=0.005)])


def test_a_sync_that_does_not_arrive_is_made_good_by_a_new_engine(
    engine, tmp_path, monkeypatch, caplog
):
    """A reload that leaves wrong weights behind gives no error; only the proof sees it."""
    model = random_policy(seed=12)
    sampler = make_sampler(engine, model, tmp_path)
    perturb(model)

    def lazy_load(self, directory):
        self.directory, self.is_reloaded = directory, True

    monkeypatch.setattr(VllmEngine, "load", lazy_load)
    with caplog.at_level(logging.WARNING):
        sampler.sync(model.state_dict().items())
    assert "did not take the weights over" in caplog.text
    assert sampler.last_proof.most_difference < 1e-3


def test_an_engine_that_dies_in_the_middle_of_a_batch_is_replaced(engine, tmp_path, caplog):
    sampler = make_sampler(engine, random_policy(seed=13), tmp_path)
    asked = [request(9, seeds=range(2000), budget=60)]
    want = sampler.sample(asked)
    (process,) = engine.process_ids()
    with engine._log.open("a") as log:  # as an engine that fails writes it
        log.write("ERROR EngineCore failed\nERROR torch.OutOfMemoryError: CUDA out of memory\n")
    killer = threading.Timer(0.3, os.kill, (process, signal.SIGKILL))
    killer.start()
    with caplog.at_level(logging.WARNING):
        got = sampler.sample(asked)
    killer.join()
    assert "died and is started anew: torch.OutOfMemoryError: CUDA out of memory" in caplog.text
    assert "ERROR EngineCore failed\nERROR torch.OutOfMemoryError" in caplog.text
    assert engine.process_ids() != [process]
    assert_rows_match(got[0], want[0])


def test_too_little_memory_is_an_error_that_names_the_setting(tmp_path):
    random_policy(num_hidden_layers=2).save_pretrained(tmp_path)
    huge = replace(SETTINGS, max_rows=10**7, memory_share=0.9999)
    with pytest.raises(SamplerError, match=r"does not start on .*[mM]emory") as caught:
        VllmEngine(tmp_path, huge)
    assert "execution.engine_memory_share" in caught.value.hint


def test_an_engine_ends_with_its_trainer_even_when_that_is_killed(tmp_path):
    random_policy().save_pretrained(tmp_path)
    trainer = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline().strip() == "started"
    engines = psutil.Process(trainer.pid).children(recursive=True)
    assert any("EngineCore" in process.name() for process in engines)
    trainer.kill()
    trainer.wait()
    gone, alive = psutil.wait_procs(engines, timeout=90)
    for process in alive:
        process.kill()
    assert [process.name() for process in alive] == []
    assert gone


if __name__ == "__main__":  # the trainer of the test above
    VllmEngine(Path(sys.argv[1]), SETTINGS)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    time.sleep(600)
