"""Tiny random models of many architectures, each for what is special about its head or cache."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

_SIZE = {
    "vocab_size": 53,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

ARCHITECTURES = {
    "llama": {},
    "qwen2": {"attention_bias": True},
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 8},  # a sliding-window cache
    "gemma2": {  # soft-capped logits, sliding and full layers in turn
        "head_dim": 8,
        "sliding_window": 8,
        "final_logit_softcapping": 3.0,
        "query_pre_attn_scalar": 8,
    },
    "gemma3_text": {"head_dim": 8, "sliding_window": 8, "query_pre_attn_scalar": 8},
    "cohere": {"logit_scale": 0.25},
    "granite": {"logits_scaling": 4.0},
    "phi": {"num_key_value_heads": 4},  # a head with bias
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},  # learned positions
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "bloom": {"n_layer": 2, "n_head": 4},  # ALiBi: no position ids, no context limit
    "lfm2": {  # convolution states beside attention
        "layer_types": ["conv", "full_attention"],
        "block_ff_dim": 48,
        "conv_L_cache": 3,
    },
}


def build(name: str, **changes):
    """A random model with weights that make every part of it matter."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **(_SIZE | ARCHITECTURES[name] | changes))
    model = AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model
