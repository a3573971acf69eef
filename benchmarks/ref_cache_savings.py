"""What the reference cache saves on a small run of the tiny preset: hits, misses, seconds, memory.

python benchmarks/ref_cache_savings.py [--lake DIR] [--prompts 32] [--steps 8] [--set A.B=C …]

Every line is a run in a process of its own on one lake, with one thread. `hits` and `misses` are
rollouts, counted at each step that used them; `scored` is the time that misses took (loading the
reference once included), `look-up` what asking the cache took, `spared` what scoring the hits
would have taken at the speed of the first run's misses. Memory is the process's peak. The last line
is what the cache costs where it saves nothing: rollouts that are new, a step at a time.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from grpo_core.config import load_config
from grpo_core.models.load import load_policy
from grpo_core.planning.externals import model_directory
from grpo_core.stages import RunSession, run_stage
from grpo_core.store.files import glob_stable
from grpo_core.store.lake import Lake
from grpo_core.store.ref_cache import RefLogprobCache
from grpo_core.store.ref_merges import list_parts
from grpo_core.store.ref_usage import open_cache
from grpo_core.store.warehouse import Warehouse
from grpo_core.types import StageName

STEP_ROWS = 64
STAGES = tuple(stage for stage in StageName if stage not in (StageName.EVALUATE, StageName.AUDIT))
QUERY = """
select
    origin,
    cast(sum(num_rows) as bigint) as num_rows,
    cast(sum(num_tokens) as bigint) as num_tokens,
    sum(seconds) as seconds
from run_ref_reads where run = '{run}' and state = 'Computed' group by all order by all
"""


def overrides(options):
    phases = [{"max_completion_tokens": tokens, "max_steps": options.steps} for tokens in (24, 40)]
    return [
        f"prompts.train_limit={options.prompts}",
        "prompts.validation_limit=4",
        "prompts.test_limit=4",
        "prefilter.samples_per_prompt=16",
        "train.prompts_per_rollout=16",
        "train.validation_samples=1",
        f"train.phases={json.dumps(phases)}",
        "execution.threads=1",
        "execution.checkpoint_every_steps=4",
        *(options.set or []),
    ]


def work(root, run, settings, force):
    """Run the stages up to training in this process."""
    config = load_config("tiny", overrides=settings)
    import_libraries(config)
    with RunSession.open(config, root=root, run=run, stages=STAGES, force=force) as session:
        for stage in STAGES:
            run_stage(session.directory, stage)


def import_libraries(config):
    """Load the reference once, so that no line counts the seconds that imports take as scoring."""
    load_policy(
        model_directory(config.model.path),
        dtype=config.model.dtype,
        attention=config.model.attention,
        trust_remote_code=False,
        device=torch.device("cpu"),
    )


def child(command):
    root, run, settings, force = json.loads(command)
    work(Path(root), run, settings, [StageName(stage) for stage in force])
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    Path(root, f"{run}.peak").write_text(str(peak))


def start(root, run, settings, force=()):
    command = json.dumps([str(root), run, settings, list(force)])
    return subprocess.Popen([sys.executable, __file__, "--child", command])


def finish(root, run, settings, force=()):
    """Run to the end; what its steps read, and peak memory in bytes."""
    process = start(root, run, settings, force)
    if process.wait() != 0:
        raise SystemExit(f"run {run} failed")
    with Warehouse(Lake(root).catalog(run)) as warehouse:
        reads = warehouse.query(QUERY.format(run=run)).dicts()
    return reads, int(Path(root, f"{run}.peak").read_text())


def kill_in_the_middle(root, run, settings):
    """Start a run and kill it when its third rollout batch is scored."""
    process = start(root, run, settings)
    while process.poll() is None:
        states = glob_stable(root, "partial/train/*/rollouts/unit-000002*")
        if states:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return
        time.sleep(0.01)
    raise SystemExit("the run ended before it could be killed")


def line(name, reads, peak, speed):
    misses = [read for read in reads if read["origin"] == "scored"]
    hits = [read for read in reads if read["origin"] != "scored"]
    scored = sum(read["seconds"] for read in misses)
    looked_up = sum(read["seconds"] for read in hits)
    spared = sum(read["num_tokens"] for read in hits) / speed
    origins = ", ".join(f"{read['origin']} {read['num_rows']}" for read in hits) or "-"
    print(
        f"{name:<34}{sum(r['num_rows'] for r in hits):>6}{sum(r['num_rows'] for r in misses):>8}"
        f"{scored:>9.2f} s{looked_up:>8.2f} s{spared:>8.2f} s{peak / 1e6:>8.0f} MB  {origins}"
    )
    return spared - looked_up


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--set", action="append")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    root = options.lake or Path(tempfile.mkdtemp(prefix="ref-savings-")) / "lake"
    try:
        report(root, overrides(options))
    finally:
        if options.lake is None:
            shutil.rmtree(root.parent)


def report(root, settings):
    root.mkdir(parents=True, exist_ok=True)
    results = {"first run": finish(root, "first", settings)}
    scored = [read for read in results["first run"][0] if read["origin"] == "scored"]
    speed = sum(read["num_tokens"] for read in scored) / sum(read["seconds"] for read in scored)
    results["two epochs a batch"] = finish(
        root, "epochs", [*settings, "train.epochs_per_rollout=2"]
    )
    results["second generation (--force train)"] = finish(root, "first", settings, ["train"])
    results["rerun, other learning rate"] = finish(
        root, "first", [*settings, "train.learning_rate=2e-4"]
    )
    results["sweep, other seed"] = finish(root, "sweep", [*settings, "train.seed=5"])
    settings = [*settings, "train.seed=7"]
    kill_in_the_middle(root, "resumed", settings)
    results["resumed after kill -9"] = finish(root, "resumed", settings)
    print(
        f"{'':<34}{'hits':>6}{'misses':>8}{'scored':>11}{'look-up':>10}{'spared':>10}{'peak':>11}"
        "  where hits came from"
    )
    gains = {name: line(name, *result, speed) for name, result in results.items()}
    not_worth = [name for name, gain in gains.items() if gain <= 0]
    print(f"the cache did not pay in: {', '.join(not_worth) or 'none of these'}")
    print(cost_of_fresh_rollouts(root, speed))


def cost_of_fresh_rollouts(root, speed):
    """Ask an empty cache for the rows of these runs, 64 at a time, and append them."""
    (directory,) = Lake(root).ref_caches()
    keys, found = open_cache(directory).take(open_cache(directory).keys())
    fresh = RefLogprobCache(root / "fresh", open_cache(directory).fingerprint)
    looked_up = appended = 0.0
    for start in range(0, len(keys), STEP_ROWS):
        part = slice(start, start + STEP_ROWS)
        begun = time.perf_counter()
        fresh.take(keys[part])
        asked = time.perf_counter()
        fresh.absorb(keys[part], found.logprobs[part], found.scored_by[part])
        looked_up += asked - begun
        appended += time.perf_counter() - asked
    fresh.compact()
    tokens = sum(values.size for values in found.logprobs)
    files = [p for name in list_parts(fresh.directory) for p in fresh.directory.glob(f"{name}.*")]
    size = sum(path.stat().st_size for path in files)
    return (
        f"fresh rollouts only: {len(keys)} rows of {tokens / len(keys):.0f} tokens cost "
        f"{looked_up:.2f} s of look-up, {appended:.2f} s of writing beside "
        f"{tokens / speed:.2f} s of scoring, {size / 1e3:.0f} kB on disk"
    )


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
