"""How long the hf sampler takes against plain `model.generate` for the same rows.

    python -m benchmarks.hf_sampler [--model DIR] [--prompts 32] [--samples 32] [--budget 64]

Both sample the same problems at temperature 1 over the full vocabulary with the same budget and
end-of-sequence ids; `generate` gets `num_return_sequences` and batches of the same size. Runs
alternate. The ratio is that of the median seconds, wall clock and CPU; 0.6 is the target.
Needs a model directory; with --random it builds a Llama of the tiny model's shape that hardly ever
ends a completion, which is the hardest case for the sampler: nothing can be compacted.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from grpo_core.config.data import PromptConfig
from grpo_core.models.load import context_tokens, eos_token_ids, load_policy, load_tokenizer
from grpo_core.models.render import PromptRenderer
from grpo_core.sampling.hf import HfSampler
from grpo_core.types import SamplingRequest

Prompt = tuple[int, ...]
TEMPLATE = "{{ problem }}\n"


def random_policy():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=143,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=3,
            max_position_embeddings=256,
            pad_token_id=0,
            eos_token_id=2,
        )
    ).eval()


def read_prompts(arguments: argparse.Namespace) -> list[Prompt]:
    with arguments.problems.open(encoding="utf-8") as file:
        problems = [json.loads(line)["question"] for line in file][: arguments.prompts]
    renderer = PromptRenderer(load_tokenizer(arguments.model), PromptConfig(template=TEMPLATE))
    return [renderer.render(problem) for problem in problems]


def plain_generate(model, prompts: Sequence[Prompt], eos: list[int], arguments) -> int:
    """Completion tokens made by `model.generate`, shortest prompts first, `rows` at a time."""
    ordered = sorted(prompts, key=len)
    per_batch = max(1, arguments.rows // arguments.samples)
    num_tokens = 0
    for start in range(0, len(ordered), per_batch):
        part = ordered[start : start + per_batch]
        longest = max(map(len, part))
        output = model.generate(
            torch.tensor([[0] * (longest - len(p)) + list(p) for p in part]),
            attention_mask=torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in part]),
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            max_new_tokens=arguments.budget,
            num_return_sequences=arguments.samples,
            eos_token_id=eos,
            pad_token_id=0,
        )
        num_tokens += int((output[:, longest:] != 0).sum())
    return num_tokens


def timed(work: Callable[[], int]) -> tuple[float, float, int]:
    wall, cpu = time.perf_counter(), time.process_time()
    num_tokens = work()
    return time.perf_counter() - wall, time.process_time() - cpu, num_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("data/models/tiny"))
    parser.add_argument("--problems", type=Path, default=Path("data/prompts/train.jsonl"))
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--budget", type=int, default=64)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--random", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = (
        random_policy()
        if arguments.random
        else load_policy(arguments.model, dtype="float32", attention="sdpa", device="cpu")
    )
    eos = eos_token_ids(arguments.model, load_tokenizer(arguments.model))
    prompts = read_prompts(arguments)
    sampler = HfSampler(
        model,
        eos_token_ids=eos,
        pad_token_id=0,
        context_tokens=context_tokens(model.config),
        batch_rows=arguments.rows,
    )
    seeds = iter(range(len(prompts) * arguments.samples))
    requests = [
        SamplingRequest(
            prompt, tuple(next(seeds) for _ in range(arguments.samples)), 1.0, arguments.budget
        )
        for prompt in prompts
    ]
    works = {
        "sampler": lambda: sum(len(c.token_ids) for row in sampler.sample(requests) for c in row),
        "generate": lambda: plain_generate(model, prompts, sorted(eos), arguments),
    }
    runs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in works}
    for work in works.values():
        timed(work)
    for _ in range(arguments.runs):
        for name, work in works.items():
            runs[name].append(timed(work))
    medians = {}
    for name, results in runs.items():
        wall, cpu = ([result[column] for result in results] for column in (0, 1))
        medians[name] = statistics.median(wall), statistics.median(cpu)
        print(
            f"{name:9} wall {medians[name][0]:.2f} s ({min(wall):.2f} to {max(wall):.2f})  "
            f"cpu {medians[name][1]:.2f} s  {results[-1][2]} completion tokens"
        )
    for column, clock in enumerate(("wall", "cpu")):
        print(f"ratio {clock}: {medians['sampler'][column] / medians['generate'][column]:.3f}")


if __name__ == "__main__":
    main()
