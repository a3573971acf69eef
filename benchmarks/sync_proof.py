"""What the proof of a weight sync costs, on a CPU: log-probs of probes, and the weights' bits.

    make vllm && make smollm2
    python -m benchmarks.sync_proof [--model data/models/smollm2-135m] [--dtype bfloat16] [--runs 3]

Prints the median seconds of each part of a sync into a running engine.
"""

import argparse
import statistics
import time
from collections import defaultdict
from pathlib import Path

import torch

from grpo_core.config import load_config
from grpo_core.policy.engines import close_engines
from grpo_core.policy.runtime import load_runtime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("data/models/smollm2-135m"))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    settings = ["device=cpu", "engine=vllm", f"threads={arguments.threads}"]
    config = load_config(
        "smollm2-135m",
        overrides=[
            f"model.path={arguments.model}",
            f"model.dtype={arguments.dtype}",
            *(f"execution.{setting}" for setting in settings),
        ],
    )
    runtime = load_runtime(config, arguments.model)
    sampler, model = runtime.sampler.inner, runtime.model
    seconds: dict[str, list[float]] = defaultdict(list)

    def timed(name, work):
        started = time.perf_counter()
        work()
        seconds[name].append(time.perf_counter() - started)

    for _ in range(arguments.runs):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 2**-7)
        timed("sync, both proofs included", lambda: sampler.sync(model.state_dict().items()))
        timed("both proofs", sampler._proven)
        timed("bits alone", sampler._compare_bits)
        timed("bits alone, the engine's part", sampler._engine.held_weights)
    for name, values in seconds.items():
        print(f"{name:30} {statistics.median(values):6.2f} s")
    sampler.close()
    close_engines()


if __name__ == "__main__":
    main()
