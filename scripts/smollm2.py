"""Turns the one GGUF file in a directory into a Hugging Face directory; see smollm2.sh."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig


def main(source: Path, target: Path) -> None:
    """Read `source`/*.gguf and save weights, tokenizer and generation config to `target`."""
    (file,) = source.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file.name)
    settings = model.config.to_dict()
    settings.pop("quantization_config", None)  # the weights are whole numbers of fp32 by now
    model.config = LlamaConfig.from_dict(settings)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
