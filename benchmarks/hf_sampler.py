"""How long the hf sampler takes against plain `model.generate` on the same rows.

    python benchmarks/hf_sampler.py [--model DIR] [--prompts 64] [--samples 8] [--budget 40]

Runs alternate; the ratio is of the medians of the seconds, printed with their range. Both sample at
temperature 1 over the full vocabulary with the same budget and the same end-of-sequence ids.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from grpo_core.sampling.hf import HfSampler
from grpo_core.types import SamplingRequest

TINY = Path("data/models/tiny")


def random_model() -> LlamaForCausalLM:
    """The tiny model's shape with random weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=60,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=3,
            num_key_value_heads=3,
            max_position_embeddings=256,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).eval()


def generate(model, prompts, samples, budget, rows):
    """Plain generate, `rows` rows at a time, left-padded; returns completion tokens."""
    tokens = 0
    for start in range(0, len(prompts), max(1, rows // samples)):
        part = prompts[start : start + max(1, rows // samples)]
        longest = max(map(len, part))
        ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in part])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in part])
        out = model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            max_new_tokens=budget,
            num_return_sequences=samples,
            pad_token_id=0,
        )
        tokens += int((out[:, longest:] != 0).sum())
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=TINY)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--equal", action="store_true", help="prompts of one length")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = (
        AutoModelForCausalLM.from_pretrained(args.model).eval()
        if args.model.is_dir()
        else random_model()
    )
    rng = torch.Generator().manual_seed(1)
    prompts = []
    for _ in range(args.prompts):
        length = 30 if args.equal else int(torch.randint(20, 45, (1,), generator=rng))
        prompts.append(
            tuple(torch.randint(3, model.config.vocab_size, (length,), generator=rng).tolist())
        )
    sampler = HfSampler(
        model,
        eos_token_ids=frozenset({2}),
        pad_token_id=0,
        context_tokens=model.config.max_position_embeddings,
        batch_rows=args.rows,
    )
    requests = [
        SamplingRequest(p, tuple(range(i * 1000, i * 1000 + args.samples)), 1.0, args.budget)
        for i, p in enumerate(prompts)
    ]
    seconds = {"sampler": [], "generate": []}
    tokens = {}
    for _ in range(args.runs):
        start = time.perf_counter(), time.process_time()
        out = sampler.sample(requests)
        seconds["sampler"].append((time.perf_counter() - start[0], time.process_time() - start[1]))
        tokens["sampler"] = sum(len(c.token_ids) for r in out for c in r)
        start = time.perf_counter(), time.process_time()
        tokens["generate"] = generate(model, prompts, args.samples, args.budget, args.rows)
        seconds["generate"].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    for name, runs in seconds.items():
        wall = [w for w, _ in runs]
        print(
            f"{name:9} median {statistics.median(wall):.3f} s wall ({min(wall):.3f} to "
            f"{max(wall):.3f}), {statistics.median(c for _, c in runs):.3f} s cpu, "
            f"{tokens[name]} completion tokens"
        )
    for label, pick in (("wall", 0), ("cpu", 1)):
        a, b = (statistics.median(r[pick] for r in seconds[n]) for n in ("sampler", "generate"))
        print(f"ratio {label}: {a / b:.3f}")


if __name__ == "__main__":
    main()
