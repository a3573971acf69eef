"""Weights that are one small step old: log-probs agree, their bits do not."""

import copy
import logging
from dataclasses import replace

import pytest
import torch
from contract import CONTEXT, EOS, VOCABULARY, random_policy, request
from random_engine import SETTINGS, trainer_side
from transformers import AutoConfig, AutoModelForCausalLM

from grpo_core.errors import SamplerError
from grpo_core.models.directory import SavedWeights
from grpo_core.sampling.checksum import OTHERS, differing
from grpo_core.sampling.proof import probe_requests, prove
from grpo_core.sampling.vllm import VllmSampler
from grpo_core.sampling.vllm_engine import VllmEngine
from grpo_core.training.masters import master_weights, publish_after_steps

STALE = r"does not hold the trainer's weights: \d+ of its tensors have other bits \(.*weight"


def take_small_step(model) -> None:
    """One step of AdamW at a learning rate of 1e-6, through fp32 masters where there are any."""
    optimizer = torch.optim.AdamW(master_weights(model), lr=1e-6, weight_decay=0.0)
    publish_after_steps(optimizer, model)
    model(torch.arange(3, 40)[None]).logits.square().mean().backward()
    optimizer.step()


@pytest.fixture(scope="module", params=[("bfloat16", True), ("float32", False)], ids=str)
def started(request, tmp_path_factory):
    """An engine, the policy it was started with, its directory and dtype."""
    dtype, has_tied_head = request.param
    policy = random_policy(seed=31, tie_word_embeddings=has_tied_head).to(getattr(torch, dtype))
    directory = tmp_path_factory.mktemp("policy")
    policy.save_pretrained(directory)
    engine = VllmEngine(directory, replace(SETTINGS, dtype=dtype))
    yield engine, policy, directory, dtype
    engine.close()


@pytest.fixture
def synced(started):
    """A sampler, and the model that its trainer moves; both have the same weights."""
    engine, policy, directory, dtype = started
    engine.load(directory)
    model = copy.deepcopy(policy)
    return make_sampler(engine, model, dtype), model


def make_sampler(engine, model, dtype):
    side = trainer_side(model, dtype)
    return VllmSampler(engine, side, eos_token_ids=EOS, context_tokens=CONTEXT)


def log_probs_agree(sampler) -> bool:
    side = sampler._trainer
    probes = probe_requests(VOCABULARY, CONTEXT)
    return bool(prove(sampler._draw, side.score, probes, side.tolerance))


def test_an_engine_whose_weights_are_one_small_step_old_is_refused(synced, started):
    (sampler, model), (engine, *_) = synced, started
    take_small_step(model)
    assert log_probs_agree(sampler), "the step is too large to show what the bits are for"
    engine.is_reloaded = False  # else it would try a new engine first
    with pytest.raises(SamplerError, match=STALE):
        sampler._proven()


def test_a_sync_of_a_small_step_passes_without_a_new_engine(synced, started):
    (sampler, model), (engine, *_) = synced, started
    (process,) = engine.process_ids()
    for _ in range(3):
        take_small_step(model)
        sampler.sync(model.state_dict().items())
        sampler.sample([request(6)])
    assert engine.process_ids() == [process]


def test_one_bit_of_one_weight_is_named(synced, started):
    (sampler, model), (engine, *_) = synced, started
    weight = model.model.layers[1].self_attn.k_proj.weight
    bits = weight.data.view(torch.int16 if weight.element_size() == 2 else torch.int32)
    bits[3, 7] ^= 1
    engine.is_reloaded = False
    with pytest.raises(SamplerError, match=r"1 of its tensors .*layers\.1\.self_attn\.qkv_proj"):
        sampler._proven()


def test_what_vllms_own_reload_leaves_of_a_tied_head_is_named(synced, started, tmp_path):
    (_, model), (engine, *_) = synced, started
    take_small_step(model)
    model.save_pretrained(tmp_path)
    engine._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(tmp_path)})
    left = differing(engine.held_weights(), SavedWeights(tmp_path))
    assert ("lm_head.weight (packed)" in left) == model.config.tie_word_embeddings
    engine.load(tmp_path)
    assert differing(engine.held_weights(), SavedWeights(tmp_path)) == []


def test_tensors_that_an_engine_transforms_at_its_start_are_warned_of(started, tmp_path, caplog):
    engine, policy, directory, _ = started
    assert engine.transformed == frozenset()
    engine.load(directory)
    other = copy.deepcopy(policy)
    other.model.norm.weight.data += 1  # as if the engine held it with 1 added
    other.save_pretrained(tmp_path)
    engine.directory = tmp_path
    with caplog.at_level(logging.WARNING):
        assert engine._transformed() == {"model.norm.weight"}
    assert "1 tensors" in caplog.text


def test_experts_that_the_engine_names_otherwise_are_compared_in_one_sum(tmp_path):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "qwen3_moe",
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        head_dim=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    weights = dict(SavedWeights(tmp_path))
    engine = VllmEngine(tmp_path, SETTINGS)
    try:
        assert engine.transformed == frozenset()
        weights["model.layers.1.mlp.experts.3.down_proj.weight"].view(torch.int32)[4, 5] ^= 1
        assert differing(engine.held_weights(), weights) == [OTHERS]
    finally:
        engine.close()


def test_weights_split_over_two_ranks_are_compared_as_well(tmp_path):
    """With one head of keys and values both ranks hold it."""
    model = random_policy(seed=32, num_key_value_heads=1).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    engine = VllmEngine(tmp_path, replace(SETTINGS, dtype="bfloat16", tensor_parallel_size=2))
    try:
        sampler = make_sampler(engine, model, "bfloat16")
        take_small_step(model)
        with pytest.raises(SamplerError, match=STALE):
            sampler._proven()
        sampler.sync(model.state_dict().items())
        assert {one.shard for one in engine.held_weights()} == {"0", "1", "q0", "q1", "kv0"}
        assert not engine.transformed
    finally:
        engine.close()
