"""Models whose files name their tensors otherwise than the trainer does."""

import json

import pytest
import torch
from contract import CONTEXT, EOS, VOCABULARY, random_policy, request
from letters import letter_tokenizer
from random_engine import SETTINGS, trainer_side
from safetensors.torch import load_file, save_file
from test_vllm_stale_weights import take_small_step
from transformers import GPT2Config, GPT2Model

from grpo_core.errors import SamplerError
from grpo_core.models.load import load_policy
from grpo_core.sampling.vllm import VllmSampler
from grpo_core.sampling.vllm_engine import VllmEngine


def write_tied_twice(directory):
    """As some models lie on the hub: the head is the embedding, and stands in the file as well."""
    random_policy(seed=51, tie_word_embeddings=True).save_pretrained(directory)
    file = directory / "model.safetensors"
    tensors = load_file(file)
    assert "lm_head.weight" not in tensors
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, file, metadata={"format": "pt"})


def write_without_prefix(directory):
    """As GPT-2 lies on the hub: no `transformer.`, and each layer's mask beside its weights."""
    torch.manual_seed(52)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=64,
        n_layer=2,
        n_head=2,
        n_positions=CONTEXT,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.3,
    )
    GPT2Model(config).save_pretrained(directory)
    settings = json.loads((directory / "config.json").read_text())
    settings["architectures"] = ["GPT2LMHeadModel"]
    (directory / "config.json").write_text(json.dumps(settings))
    file = directory / "model.safetensors"
    tensors = load_file(file)
    assert "h.0.attn.c_attn.weight" in tensors
    for layer in range(config.n_layer):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril()
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("write", [write_tied_twice, write_without_prefix])
def test_its_weights_arrive_and_old_ones_are_refused(write, tmp_path):
    write(tmp_path)
    letter_tokenizer().save_pretrained(tmp_path)
    model = load_policy(tmp_path, dtype="float32", attention="sdpa", device="cpu")
    engine = VllmEngine(tmp_path, SETTINGS)
    try:
        assert not engine.transformed
        side = trainer_side(model)
        sampler = VllmSampler(engine, side, eos_token_ids=EOS, context_tokens=CONTEXT)
        (process,) = engine.process_ids()
        for _ in range(2):
            take_small_step(model)
            sampler.sync(model.state_dict().items())
            assert sampler.sample([request(6)])[0]
        assert engine.process_ids() == [process]
        take_small_step(model)
        with pytest.raises(SamplerError, match="have other bits"):
            sampler._compare_bits()
    finally:
        engine.close()
