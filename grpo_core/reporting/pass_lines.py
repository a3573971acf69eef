"""pass@k of a run's checkpoints with intervals over prompts, paired with the base model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from grpo_core.evaluation.intervals import mean_interval
from grpo_core.evaluation.paired import paired_difference
from grpo_core.store.warehouse import Warehouse

SMALLEST_SHARE = 0.95
"""Share of problems that must have k decided samples: below it, the mean is over a chosen few."""

Estimates = dict[str, float]


@dataclass(frozen=True, slots=True)
class PassLine:
    """pass@k of one checkpoint; bootstrap interval over prompts.

    Args:
        phase: 0 for the base model.
        checkpoint: `base`, `phase 1`, …
        k: Draws.
        num_prompts: Problems with at least k decided samples.
        num_left_out: Problems with fewer.
        estimate: Mean of the unbiased estimate over problems.
        low: Lower end of its interval.
        high: Upper end.
        gain: Paired difference to the base model, on the last checkpoint only.
        gain_low: Lower end of its interval.
        gain_high: Upper end.
    """

    phase: int
    checkpoint: str
    k: int
    num_prompts: int
    num_left_out: int
    estimate: float
    low: float
    high: float
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None


def read_pass_lines(
    warehouse: Warehouse,
    run: str,
    *,
    ks: Sequence[int] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[PassLine, ...]:
    """Return one line for each k and checkpoint, by k, then phase.

    Args:
        warehouse: Over a catalog that holds the run.
        run: Run name.
        ks: The k to show; None for powers of two. A k that more than 5 % of the problems lack
            samples for is left out.
        confidence: Level of the intervals.
        seed: Of the bootstrap.
    """
    params = {"run": run, "ks": None if ks is None else list(ks)}
    rows = warehouse.run_report("pass_at_k_by_prompt", params).dicts()
    estimates: dict[tuple[int, int], Estimates] = {}
    labels: dict[int, str] = {}
    for row in rows:
        estimates.setdefault((row["k"], row["phase"]), {})[row["prompt_id"]] = row["estimate"]
        labels[row["phase"]] = row["checkpoint_label"]
    totals = _num_problems(warehouse, run)
    return tuple(
        _line(k, phase, labels, estimates, totals[phase], confidence=confidence, seed=seed)
        for k, phase in sorted(estimates)
        if len(estimates[k, phase]) >= SMALLEST_SHARE * totals[phase]
    )


def _num_problems(warehouse: Warehouse, run: str) -> dict[int, int]:
    """Evaluated problems with a decided sample, by phase."""
    rows = warehouse.run_report("pass_at_k_by_prompt", {"run": run, "ks": [1]}).dicts()
    totals: dict[int, int] = {}
    for row in rows:
        totals[row["phase"]] = totals.get(row["phase"], 0) + 1
    return totals


def _line(
    k: int,
    phase: int,
    labels: dict[int, str],
    estimates: dict[tuple[int, int], Estimates],
    total: int,
    **bootstrap: Any,
) -> PassLine:
    own, base = estimates[k, phase], estimates.get((k, 0), {})
    found = mean_interval([own[prompt] for prompt in sorted(own)], **bootstrap)
    shared = sorted(own.keys() & base.keys())
    line = PassLine(
        phase=phase,
        checkpoint=labels[phase],
        k=k,
        num_prompts=len(own),
        num_left_out=total - len(own),
        estimate=found.mean,
        low=found.low,
        high=found.high,
    )
    if phase == 0 or phase != max(labels) or not shared:
        return line
    gain = paired_difference([base[p] for p in shared], [own[p] for p in shared], **bootstrap)
    return replace(line, gain=gain.mean, gain_low=gain.low, gain_high=gain.high)
