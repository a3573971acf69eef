"""Seconds and peak memory of SQL over a large lake: opening, marts, routine and deep audits.

python benchmarks/warehouse_scale.py [--samples 10000000] [--tokens 100000000] [--lake DIR]

A small lake that keeps every contract is repeated with other ids until it has that many prefilter
samples (of about 30 tokens) and rollout tokens (rollouts of about 250 tokens, each with its row in
the reference cache). Every step is a process of its own with 2 threads and 6 GiB for DuckDB; a mart
is computed whole, each column of each row. Wall seconds stand beside processor seconds, which other
work on the machine does not change. Everything is shown at a tenth, too: growth must be linear.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sql"))

from lake_fixture import LakeFixture, make_lake

from grpo_core.store.catalog import Catalog, CatalogEntry
from grpo_core.store.parquet import write_part
from grpo_core.store.ref_parts import SCHEMA as REF_LOGPROBS
from grpo_core.store.ref_parts import write_part as write_ref_part
from grpo_core.store.schemas import TABLES
from grpo_core.store.warehouse import Warehouse

GROUP_SIZE = 8
ROWS_PER_PART = 200_000
REPEATED = ("prompts", "samples", "verdicts", "bands", "rollouts", "steps", "ref_reads")
LIMIT_BYTES = 6 << 30
PARAMS = {
    "samples_per_prompt": 32,
    "group_size": GROUP_SIZE,
    "kl_enabled": True,
    "advantage_std": "sample",
}


def small_lake():
    return make_lake(
        num_train=512,
        num_test=16,
        samples_per_prompt=32,
        group_size=GROUP_SIZE,
        groups_per_batch=32,
        budgets=(400,),
        batches_per_phase=8,
        sample_tokens=30,
        rollout_tokens=250,
    )


def repeated(table, number, num_steps):
    """The rows with ids of their own, steps after those of the repetition before."""
    columns = {name: table.column(name) for name in table.column_names}
    for name in ("prompt_id", "duplicate_of", "ref_row_key", "row_key"):
        if name in columns:
            columns[name] = pc.binary_join_element_wise(columns[name], str(number), "-")
    shifts = {"step": num_steps, "update_step": num_steps, "rollout_batch": num_steps // 2}
    for name, shift in shifts.items():
        if name in columns:
            moved = pc.add(columns[name], number * shift)
            columns[name] = moved.cast(table.schema.field(name).type)
    if "row_number" in columns:
        rows_of_a_file = pc.max(columns["row_number"]).as_py() + 1
        columns["row_number"] = pc.add(columns["row_number"], number * rows_of_a_file)
    return pa.table(columns, schema=table.schema)


def write_repeated(directory, name, rows, times, num_steps):
    """Parts of `times` repetitions of the rows of one table."""
    spec = TABLES[name]
    table = pa.Table.from_pylist(rows, spec.schema)
    together = max(ROWS_PER_PART // max(table.num_rows, 1), 1)
    for part, start in enumerate(range(0, times, together)):
        numbers = range(start, min(start + together, times))
        whole = pa.concat_tables([repeated(table, number, num_steps) for number in numbers])
        path = directory / f"part-{part:05d}.parquet"
        write_part(path, whole, spec, key="0" * 64, part=part)
        yield path


def write_cache(directory, lake, times, num_steps):
    table = pa.Table.from_pylist(lake.ref_rows, REF_LOGPROBS)
    pieces = (repeated(table, number, num_steps) for number in range(times))
    write_ref_part_unindexed(directory, pieces)


def write_ref_part_unindexed(directory, pieces):
    """The keys of this lake are no hashes, so the index, which SQL never reads, is left out."""
    import grpo_core.store.ref_parts as parts

    parts.build_index, kept = (lambda _: parts.np.zeros((3, 0), parts.np.uint64)), parts.build_index
    try:
        write_ref_part(directory, "part-00000000-benchmark", pieces, "benchmark")
    finally:
        parts.build_index = kept


def generate(root, num_samples, num_tokens):
    """Write the lake's Parquet files; the catalog goes beside them as JSON."""
    lake: LakeFixture = small_lake()
    samples = len(lake.rows("samples", "samples"))
    tokens = sum(row["num_completion_tokens"] for row in lake.all_rows("rollouts"))
    num_steps = len(list(lake.all_rows("steps")))
    times = {"rollouts": -(-num_tokens // tokens), "samples": -(-num_samples // samples)}
    entries, sizes = [], {}
    for label, tables in lake.nodes.items():
        files = {}
        for name, rows in tables.items():
            is_phase = name in ("rollouts", "steps", "ref_reads")
            count = times["rollouts" if is_phase else "samples"] if name in REPEATED else 1
            count = 1 if label.startswith(("eval", "bands/1")) else count
            paths = list(write_repeated(root / label / name, name, rows, count, num_steps))
            files[name] = [str(path) for path in paths]
            sizes[name] = sizes.get(name, 0) + count * len(rows)
        entries.append([label, lake.key(label), files])
    write_cache(root / "ref_logprobs" / "benchmark", lake, times["rollouts"], num_steps)
    sizes["rollout tokens"] = times["rollouts"] * tokens
    (root / "sizes.json").write_text(json.dumps(sizes))
    (root / "catalog.json").write_text(json.dumps(entries))


def catalog(root):
    used = small_catalog()
    entries = []
    for label, key, files in json.loads((root / "catalog.json").read_text()):
        node = used[label]
        tables = {name: tuple(map(Path, paths)) for name, paths in files.items()}
        entries.append(CatalogEntry(node.kind, node.stage, key, node.content, True, tables))
    parts = tuple(sorted(root.glob("ref_logprobs/*/*.parquet")))
    return Catalog(tuple(entries), (), tuple(used.values()), {}, parts)


def small_catalog():
    """Run rows of the small lake, by label."""
    lake = make_lake(num_train=24, num_test=2, budgets=(400,))
    with tempfile.TemporaryDirectory() as directory:
        return {row.label: row for row in lake.write(Path(directory)).run_artifacts}


class Taken(NamedTuple):
    """What one step took."""

    seconds: float
    processor: float
    peak: int = 0
    found: str = ""

    def __str__(self):
        return f"{self.seconds:6.2f} s {self.processor:6.2f} CPU s {self.peak / 2**30:5.2f} GiB"


def step(root, name):
    """One measured step in a process of its own."""
    opened = catalog(root)
    started, worked = time.perf_counter(), time.process_time()
    with Warehouse(opened, threads=2, memory_bytes=LIMIT_BYTES) as warehouse:
        if name == "open":
            warehouse.query("select count(*) from run_nodes").dicts()
        elif name in ("audits", "deep audits"):
            found = warehouse.run_audits(PARAMS, deep=name == "deep audits")
            broken = {result.name: result.num_rows for result in found if result.num_rows}
            print(json.dumps(broken), file=sys.stderr)
        else:
            query = f"select count(*), bit_xor(hash(m)) from {name} as m"
            warehouse.query(query).dicts()
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    print(json.dumps([seconds, processor, peak]))


def measured(root, name):
    command = [sys.executable, __file__, "--step", name, "--lake", str(root)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return Taken(*json.loads(done.stdout.splitlines()[-1]), done.stderr.strip())


def report(root, samples, tokens):
    if not (root / "catalog.json").is_file():
        generate(root, samples, tokens)
    sizes = json.loads((root / "sizes.json").read_text())
    print(", ".join(f"{count:,} {name}" for name, count in sizes.items() if count > 1000))
    marts = sorted(path.stem for path in Path("sql/marts").glob("*.sql"))
    taken = {name: measured(root, name) for name in ("open", *marts, "audits", "deep audits")}
    for name, step in taken.items():
        told = f"  {step.found}" if step.found not in ("", "{}") else ""
        print(f"{name:<20} {step}{told}")
    routine = [taken[name] for name in ("open", *marts, "audits")]
    summed = Taken(
        sum(step.seconds for step in routine),
        sum(step.processor for step in routine),
        max(step.peak for step in routine),
    )
    print(f"{'all but deep audits':<20} {summed}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step(options.lake, options.step)
        return
    root = options.lake or Path(tempfile.mkdtemp(prefix="warehouse-scale-"))
    try:
        for share in (10, 1):
            report(root / str(share), options.samples // share, options.tokens // share)
    finally:
        if options.lake is None:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
