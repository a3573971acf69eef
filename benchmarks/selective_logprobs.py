"""Time and peak memory of token log-probs: plain, TRL's selective_log_softmax, chunked.

python benchmarks/selective_logprobs.py [--tokens 4096] [--runs 3] [--head trained|frozen|both]
    [--dtype float32|bfloat16] [--results FILE]

Every run is a process of its own with one thread; variants alternate, medians are printed. Memory
is the peak resident size above inputs. CPU seconds are shown beside wall seconds, because they
stay comparable on a busy machine. With --results FILE runs are kept there, so that they can be made
in portions; medians are over all of them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

VARIANTS = ("log_softmax", "selective_log_softmax", "chunked")


def status_bytes(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def log_softmax(hidden, weight, ids, temperature, chunk):
    """The plain path: all logits, their log_softmax and entropy in fp32."""
    logits = (hidden @ weight.t()).float() / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
    return logprobs.gather(1, ids.unsqueeze(1)).squeeze(1), entropy


def selective_log_softmax(hidden, weight, ids, temperature, chunk):
    """As TRL's trainer/utils.py does it: logsumexp row by row; entropy 128 rows at a time."""
    logits = (hidden @ weight.t()).float() / temperature
    chosen = logits.gather(1, ids.unsqueeze(1)).squeeze(1)
    logprobs = chosen - torch.stack([torch.logsumexp(row, dim=-1) for row in logits])
    with torch.no_grad():
        rows = []
        for part in logits.split(128):
            values = torch.log_softmax(part, dim=-1)
            rows.append(-(values.exp() * values).sum(dim=-1))
    return logprobs, torch.cat(rows)


def chunked(hidden, weight, ids, temperature, chunk):
    from grpo_core.objective.logprobs import selective_logprobs

    return selective_logprobs(hidden, weight, ids, temperature=temperature, chunk_tokens=chunk)


def run_once(options):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dtype = getattr(torch, options.dtype)
    hidden = torch.randn(options.tokens, options.hidden).to(dtype).requires_grad_()
    weight = 0.05 * torch.randn(options.vocabulary, options.hidden)
    weight = weight.to(dtype).requires_grad_(options.head == "trained")
    ids = torch.randint(0, options.vocabulary, (options.tokens,))
    incoming = torch.randn(options.tokens)
    variant = globals()[options.once]
    variant(hidden[:2], weight, ids[:2], options.temperature, options.chunk)  # loads libraries
    Path("/proc/self/clear_refs").write_text("5")
    resident = status_bytes("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    logprobs, entropy = variant(hidden, weight, ids, options.temperature, options.chunk)
    forward = time.process_time() - cpu
    (logprobs * incoming).sum().backward()
    result = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "forward_cpu": forward,
        "peak": status_bytes("VmHWM") - resident,
        "logprobs": float(logprobs.detach().double().sum()),
        "entropy": float(entropy.double().sum()),
        "hidden_gradient": float(hidden.grad.double().norm()),
        "head_gradient": float(weight.grad.double().norm()) if weight.grad is not None else 0.0,
    }
    sys.stdout.write(json.dumps(result))


def check_gradients(options):
    """Prints the relative distance of chunked gradients from those of the plain path."""
    torch.manual_seed(0)
    count = min(options.tokens, 256)
    hidden = torch.randn(count, options.hidden)
    weight = 0.05 * torch.randn(options.vocabulary, options.hidden)
    ids = torch.randint(0, options.vocabulary, (count,))
    incoming = torch.randn(count)
    gradients = {}
    for variant in ("log_softmax", "chunked"):
        leaves = [tensor.clone().requires_grad_() for tensor in (hidden, weight)]
        run = globals()[variant]
        logprobs, _ = run(*leaves, ids, options.temperature, options.chunk)
        gradients[variant] = torch.autograd.grad((logprobs * incoming).sum(), leaves)
    for name, plain, ours in zip(("hidden", "head"), *gradients.values(), strict=True):
        error = float((plain - ours).norm() / plain.norm())
        print(f"relative difference of the {name} gradients, {count} tokens: {error:.1e}")


def run_child(arguments):
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def configuration(options, head):
    names = ("tokens", "hidden", "vocabulary", "chunk", "temperature", "dtype")
    return " ".join([head, *(str(getattr(options, name)) for name in names)])


def kept_runs(options, head):
    """Runs of the same configuration that the results file holds, by variant."""
    empty = {variant: [] for variant in options.variants}
    if options.results is None or not options.results.is_file():
        return empty
    return empty | json.loads(options.results.read_text()).get(configuration(options, head), {})


def keep_runs(options, head, results):
    if options.results is not None:
        file = options.results
        kept = json.loads(file.read_text()) if file.is_file() else {}
        file.write_text(json.dumps(kept | {configuration(options, head): results}) + "\n")


def compare(options, head):
    results = kept_runs(options, head)
    for _ in range(options.runs):
        for variant in options.variants:
            results[variant].append(
                run_child(
                    [
                        *("--once", variant, "--head", head, "--dtype", options.dtype),
                        *("--tokens", str(options.tokens), "--hidden", str(options.hidden)),
                        *("--vocabulary", str(options.vocabulary), "--chunk", str(options.chunk)),
                        *("--temperature", str(options.temperature)),
                    ]
                )
            )
    keep_runs(options, head, results)
    medians = {
        variant: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for variant, runs in results.items()
    }
    base = medians[options.variants[0]]
    print(
        f"\nhead {head}, {options.tokens} tokens, vocabulary {options.vocabulary}, hidden "
        f"{options.hidden}, {options.dtype}, T = {options.temperature}, "
        f"{len(results[options.variants[0]])} runs"
    )
    print(f"{'variant':24}{'wall s':>9}{'cpu s':>9}{'x':>7}{'peak MiB':>10}{'1/':>7}  gradients")
    for variant, row in medians.items():
        print(
            f"{variant:24}{row['wall']:9.1f}{row['cpu']:9.1f}{row['cpu'] / base['cpu']:7.2f}"
            f"{row['peak'] / 2**20:10.0f}{base['peak'] / row['peak']:7.1f}"
            f"  {row['hidden_gradient']:.6g} {row['head_gradient']:.6g}"
            f"  (forward {row['forward_cpu']:.1f} s)"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--head", default="both", choices=("trained", "frozen", "both"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--results", type=Path, help="JSON file that runs are kept in")
    parser.add_argument("--once", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        run_once(options)
        return
    if options.runs == 0 or options.results is None:
        check_gradients(options)
    for head in ("trained", "frozen") if options.head == "both" else (options.head,):
        compare(options, head)


if __name__ == "__main__":
    main()
