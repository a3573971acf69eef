"""`make learn`: does GRPO teach the tiny model anything? Three seeds, paired with the base.

Runs the whole pipeline of a preset once a seed and compares test pass@1 of the last phase with the
base's, problem by problem. Exits with 1 when a seed did not gain.
"""

import argparse
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from grpo_core.config import RunConfig, load_config
from grpo_core.evaluation import PairedDifference, paired_difference
from grpo_core.planning.graph import BASE
from grpo_core.stages import RunSession, lake_root, run_stage
from grpo_core.stages.evaluate import verdict_counts
from grpo_core.store.lake import Lake
from grpo_core.types import StageName

_TRAINED_BY = (
    StageName.INGEST,
    StageName.PREFILTER,
    StageName.VARIANTS,
    StageName.REF_LOGP,
    StageName.TRAIN,
    StageName.EVALUATE,
)


@dataclass(frozen=True, slots=True)
class SeedResult:
    """Test pass@1 of one seed.

    Args:
        seed: `train.seed`.
        base: Mean over problems before training.
        final: Mean over problems after the last phase.
        difference: final - base, paired by problem, with its interval.
    """

    seed: int
    base: float
    final: float
    difference: PairedDifference


def run_seed(preset: str, seed: int, overrides: list[str]) -> SeedResult:
    """Run the pipeline with `train.seed = seed` and compare base and last phase."""
    config = load_config(preset, overrides=[*overrides, f"train.seed={seed}"])
    run = f"{preset}-seed-{seed}"
    with RunSession.open(config, root=lake_root(config), run=run, stages=_TRAINED_BY) as session:
        for stage in _TRAINED_BY:
            run_stage(session.directory, stage)
        nodes = session.records.pins()
    base = _pass_rates(session.lake, nodes[f"eval_verdicts/{BASE}"])
    final = _pass_rates(session.lake, nodes[f"eval_verdicts/{len(config.train.phases)}"])
    return _compare(config, seed, base, final)


def _compare(config: RunConfig, seed: int, base: list[float], final: list[float]) -> SeedResult:
    difference = paired_difference(
        base, final, confidence=config.evaluate.confidence, seed=config.seed
    )
    return SeedResult(seed, sum(base) / len(base), sum(final) / len(final), difference)


def _pass_rates(lake: Lake, node: Mapping[str, Any]) -> list[float]:
    """pass@1 of each problem, in order of its id."""
    artifact = lake.store.generation(node["stage"], node["key"], node["content"])
    verdicts = artifact.table("eval_verdicts", ["prompt_id", "label", "reward_raw"])
    return [c / n if n else 0.0 for n, c in verdict_counts(verdicts)]


def render(results: list[SeedResult], confidence: float) -> Table:
    """The table that the README quotes."""
    table = Table(title=f"test pass@1, {confidence:.0%} intervals paired over problems")
    for name in ("seed", "base", "final", "gain", "interval"):
        table.add_column(name, justify="right")
    for result in results:
        gain = result.difference
        table.add_row(
            str(result.seed),
            f"{result.base:.3f}",
            f"{result.final:.3f}",
            f"{gain.mean:+.3f}",
            f"{gain.low:+.3f} … {gain.high:+.3f}",
        )
    mean = sum(result.difference.mean for result in results) / len(results)
    table.add_section()
    table.add_row("mean", "", "", f"{mean:+.3f}", "")
    return table


def main() -> int:
    """Run the seeds, print the table, return the exit status."""
    parser = argparse.ArgumentParser(prog="make learn", description=__doc__)
    parser.add_argument("--preset", default="learn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    shown = logging.StreamHandler()
    shown.setLevel(logging.WARNING)  # the rest goes to the attempts' logs
    logging.basicConfig(handlers=[shown])
    console = Console()
    results = []
    for seed in arguments.seeds:
        results.append(run_seed(arguments.preset, seed, arguments.overrides))
        last = results[-1]
        console.print(f"seed {seed}: {last.base:.3f} → {last.final:.3f}")
    console.print(render(results, load_config(arguments.preset).evaluate.confidence))
    return 0 if all(result.difference.mean > 0 for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
