"""Turns the one GGUF file in a directory into a Hugging Face directory; see smollm2.sh."""

import sys
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
)


def main(source: Path, target: Path) -> None:
    """Read `source`/*.gguf and save weights, tokenizer and generation config to `target`."""
    (file,) = source.glob("*.gguf")
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file.name)
    # What was read counts as quantised and cannot be saved: its fp32 numbers move to a clean model.
    settings = read.config.to_dict()
    for name in ("quantization_config", "_model_name_or_path"):
        settings.pop(name, None)
    model = LlamaForCausalLM(LlamaConfig.from_dict(settings))
    model.load_state_dict(read.state_dict())
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
