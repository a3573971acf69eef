"""Speed, size and memory of the reference cache beside bare PyArrow and what people do today.

python benchmarks/ref_cache.py [--rollouts 200000] [--tokens 250] [--runs 5]

Log-probs are drawn from those of the shipped model on its own samples, so that their bits are
those of real output; the size is shown for that output as it is, too. All figures of a line come
from one run; ratios compare medians. Writing is shown with and without waiting for the disk,
because the cache waits (fsync) and plain `write_table` does not, and in processor time, which other
processes move less: the cache prepares rows on one core while another encodes them.
"""

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WRITTEN_TOGETHER = 4096


def fingerprint():
    from grpo_core.store import Fingerprint

    return Fingerprint("w" * 64, "t" * 64, "float32", "sdpa")


def model_logprobs(num_tokens):
    """Log-probs of the shipped model on completions that it sampled itself, fp32 [num_tokens]."""
    from grpo_core.config import load_config
    from grpo_core.models.fixed_scoring import score_fixed
    from grpo_core.paths import resolve_path
    from grpo_core.policy.runtime import load_runtime, sample_request

    config = load_config("tiny", overrides=["execution.device=cpu"])
    runtime = load_runtime(config, resolve_path(config.model.path))
    lines = resolve_path(config.prompts.source).read_text().splitlines()
    pieces, count, start = [], 0, 0
    while count < num_tokens:
        problems = [json.loads(line) for line in lines[start : start + 64]]
        start += 64
        requests = [
            sample_request(
                runtime.renderer.render(problem["question"]),
                ("benchmark", n),
                num_samples=4,
                temperature=1.0,
                max_completion_tokens=64,
            )
            for n, problem in enumerate(problems)
        ]
        sampled = runtime.sampler.sample(requests)
        rows = [
            (request.prompt_token_ids, completion.token_ids)
            for request, group in zip(requests, sampled, strict=True)
            for completion in group
        ]
        pieces += score_fixed(runtime.model, rows, [1.0] * len(rows), runtime.head)
        count += sum(len(completion) for _, completion in rows)
    return np.concatenate(pieces)


def rollouts(num_rollouts, tokens, source):
    """Rows with distinct token ids; log-probs drawn from the model's."""
    from grpo_core.store import RefRow

    rng = np.random.default_rng(0)
    values = source[rng.integers(0, source.size, (num_rollouts, tokens))]
    ids = rng.integers(0, 50_000, (num_rollouts, tokens), dtype=np.int32)
    return [RefRow((1, 2, n), row.tolist(), 1.0) for n, row in enumerate(ids)], list(values)


def real_size(work, source, tokens):
    """Bytes a token of the model's own output in its own order."""
    from grpo_core.store import RefLogprobCache, RefRow

    count = source.size // tokens
    rows = [RefRow((n,), range(tokens), 1.0) for n in range(count)]
    cache = RefLogprobCache(work / "real", fingerprint())
    cache.put_many(rows, list(source[: count * tokens].reshape(count, tokens)))
    size = sum(path.stat().st_size for path in cache.directory.glob("part-*"))
    return size / (count * tokens)


def seconds(action, runs):
    """Median wall seconds."""
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def written(work, table, rows, values, runs):
    """Write everything: bare, bare and fsynced, through the cache; wall and processor seconds."""
    from grpo_core.store import RefLogprobCache
    from grpo_core.store.files import fsync_file

    options = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": ["scored_by"],
        "column_encoding": {"logprobs.list.element": "BYTE_STREAM_SPLIT"},
        "write_statistics": ["scored_by"],
        "row_group_size": 256,
        "write_page_checksum": True,
    }
    bare = work / "bare.parquet"

    def durable():
        pq.write_table(table, bare, **options)
        fsync_file(bare)

    def cached():
        shutil.rmtree(work / "cache", ignore_errors=True)
        RefLogprobCache(work / "cache", fingerprint()).put_many(rows, values, scored_by="benchmark")

    actions = {
        "bare": lambda: pq.write_table(table, bare, **options),
        "durable": durable,
        "cache": cached,
    }
    return in_turn(actions, runs)


def in_turn(actions, runs):
    """Median wall and processor seconds of each; in turn, so that a busy moment meets all."""
    wall, processor = {name: [] for name in actions}, {name: [] for name in actions}
    for _ in range(runs):
        for name, action in actions.items():
            started = time.process_time()
            wall[name].append(seconds(action, 1))
            processor[name].append(time.process_time() - started)
    return (
        {name: statistics.median(times) for name, times in wall.items()},
        {name: statistics.median(times) for name, times in processor.items()},
    )


def peak_of_lookup(work, num_rows):
    """Resident bytes that a process needs for one look-up of rows written together."""
    command = [sys.executable, __file__, "--memory", str(work / "cache"), str(num_rows)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_memory(root, num_rows):
    from grpo_core.store import RefLogprobCache, RefRow

    ids = np.load(Path(root).parent / "together.npy")[:num_rows]
    rows = [RefRow((1, 2, int(line[0])), line[1:].tolist(), 1.0) for line in ids]
    cache = RefLogprobCache(Path(root), fingerprint())
    cache.get_many(rows[:1])
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    found = cache.get_many(rows)
    assert all(values is not None for values in found)
    print(resident("VmHWM") - before)


def resident(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def one_file_a_rollout(work, rows, values, runs):
    """What a directory of torch.save files costs; measured on 4,096 rollouts, not extrapolated."""
    import torch

    directory = work / "files"
    directory.mkdir(exist_ok=True)
    part = list(zip(rows[:WRITTEN_TOGETHER], values[:WRITTEN_TOGETHER], strict=True))

    def write():
        for row, line in part:
            torch.save(torch.from_numpy(line), directory / f"{row.key}.pt")

    def read():
        for row, _ in part:
            torch.load(directory / f"{row.key}.pt", weights_only=True)

    result = {"write": seconds(write, runs), "read": seconds(read, runs)}
    sizes = sum(-(-path.stat().st_size // 4096) * 4096 for path in directory.iterdir())
    return result | {"bytes_per_token": sizes / sum(line.size for _, line in part)}


def one_torch_file(work, values, runs):
    """One torch.save of everything: any look-up loads all of it."""
    import torch

    path, tensors = work / "all.pt", [torch.from_numpy(line) for line in values]
    write = seconds(lambda: torch.save(tensors, path), 1)
    return {
        "write": write,
        "read": seconds(lambda: torch.load(path, weights_only=True), max(runs // 2, 1)),
        "bytes_per_token": path.stat().st_size / sum(line.size for line in values),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rollouts", type=int, default=200_000)
    parser.add_argument("--tokens", type=int, default=250)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        measure_memory(options.memory[0], int(options.memory[1]))
        return
    with tempfile.TemporaryDirectory(prefix="ref-cache-") as directory:
        report(Path(directory), options)


def read_rows(part):
    """Bare PyArrow to the same end: checked pages, key → one array a row."""
    columns = ["row_key", "logprobs", "scored_by"]
    table = pq.read_table(part, columns=columns, page_checksum_verification=True).combine_chunks()
    column = table.column("logprobs").chunk(0)
    borders, flat = column.offsets.to_numpy().tolist(), column.values.to_numpy()
    lines = [flat[start:end] for start, end in itertools.pairwise(borders)]
    return dict(zip(table.column("row_key").to_pylist(), lines, strict=True))


def report(work, options):
    from grpo_core.store import RefLogprobCache
    from grpo_core.store.ref_parts import make_tables

    source = model_logprobs(100_000)
    rows, values = rollouts(options.rollouts, options.tokens, source)
    count = options.rollouts * options.tokens
    np.save(
        work / "together.npy",
        np.array([[r.prompt_token_ids[2], *r.completion_token_ids] for r in rows[1000:5096]]),
    )
    print(f"{options.rollouts:,} rollouts, {count / 1e6:.0f} M tokens")
    keys = seconds(
        lambda: [
            type(r)(r.prompt_token_ids, r.completion_token_ids, 1.0).key
            for r in rows[:WRITTEN_TOGETHER]
        ],
        3,
    )
    table = pa.concat_tables(
        make_tables([row.key for row in rows], values, ["benchmark"] * len(rows))
    )
    write, processor = written(work, table, rows, values, options.runs)
    cache = RefLogprobCache(work / "cache", fingerprint())
    part = next(cache.directory.glob("part-*.parquet"))
    size = sum(path.stat().st_size for path in cache.directory.glob("part-*"))
    print(
        f"write      bare {write['bare']:.2f} s, durable {write['durable']:.2f} s, "
        f"cache {write['cache']:.2f} s: {write['cache'] / write['durable']:.2f}x durable, "
        f"{write['cache'] / write['bare']:.2f}x bare"
    )
    print(
        f"           processor time: durable {processor['durable']:.2f} s, cache "
        f"{processor['cache']:.2f} s: {processor['cache'] / processor['durable']:.2f}x"
    )
    real = real_size(work, source, options.tokens)
    print(f"size       {size / count:.2f} bytes a token, index included; {real:.2f} as sampled")

    rng = np.random.default_rng(1)
    random = [rows[n] for n in rng.choice(len(rows), WRITTEN_TOGETHER, replace=False)]
    repeated = [*rows[:1000], *rows[999:]]
    actions = {
        "scan": lambda: pq.read_table(part, columns=["row_key", "logprobs"]),
        "rows": lambda: read_rows(part),
        "cache": lambda: cache.get_many(rows),
        "sought": lambda: cache.get_many(repeated),
        "random": lambda: cache.get_many(random),
    }
    read, processor = in_turn(actions, 2 * options.runs)
    print(
        f"read all   bare scan {read['scan']:.3f} s, bare rows {read['rows']:.3f} s, cache "
        f"{read['cache']:.3f} s: {read['cache'] / read['rows']:.2f}x rows, "
        f"{read['cache'] / read['scan']:.2f}x scan"
    )
    print(
        f"           processor time: scan {processor['scan']:.2f} s, cache "
        f"{processor['cache']:.2f} s: {processor['cache'] / processor['scan']:.2f}x"
    )
    print(
        f"           one asked for twice, so that each key is sought: {read['sought']:.3f} s: "
        f"{read['sought'] / read['scan']:.2f}x scan"
    )
    print(
        f"random     {WRITTEN_TOGETHER} rows {read['random']:.3f} s: "
        f"{read['random'] / read['scan']:.2f}x bare scan"
    )
    for number in (512, 1024, 2048, WRITTEN_TOGETHER):
        together = rows[1000 : 1000 + number]
        took = seconds(lambda rows=together: cache.get_many(rows), options.runs)
        print(
            f"together   {number} rows {took:.4f} s, peak memory "
            f"{peak_of_lookup(work, number) / 1e6:.0f} MB"
        )
    print(f"           keys of {WRITTEN_TOGETHER} rows from token ids {keys:.3f} s")
    memory_by_size(work, rows, values, options.rollouts)
    files = one_file_a_rollout(work, rows, values, 1)
    whole_file = one_torch_file(work, values, options.runs)
    print(
        f"today      one torch.save a rollout: {WRITTEN_TOGETHER} rows "
        f"write {files['write']:.2f} s, "
        f"read {files['read']:.2f} s, {files['bytes_per_token']:.1f} bytes a token on disk"
    )
    print(
        f"           one torch.save of all: write {whole_file['write']:.2f} s, any row "
        f"{whole_file['read']:.2f} s, {whole_file['bytes_per_token']:.2f} bytes a token"
    )


def memory_by_size(work, rows, values, total):
    """Peak memory of the same look-up in caches of growing size."""
    from grpo_core.store import RefLogprobCache

    for share in (0.1, 0.5, 1.0):
        shutil.rmtree(work / "cache")
        count = max(int(total * share), 5096)
        cache = RefLogprobCache(work / "cache", fingerprint())
        cache.put_many(rows[:count], values[:count])
        peak = peak_of_lookup(work, WRITTEN_TOGETHER) / 1e6
        print(f"memory     {WRITTEN_TOGETHER} of {count:,} rows: peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
