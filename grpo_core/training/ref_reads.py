"""Rows of the side table `ref_reads`: where the reference log-probs of a step came from."""

from collections.abc import Sequence
from typing import Any

from grpo_core.policy.origins import RefOrigin
from grpo_core.policy.reference import RefRead
from grpo_core.training.tensors import TrainRow


def step_reads(
    rows: Sequence[TrainRow], *, phase: int, step: int, epoch: int
) -> list[dict[str, Any]]:
    """One row an origin, of the rows of one optimiser step that have reference log-probs.

    Args:
        rows: Members of the step's mini-batch.
        phase: Phase number.
        step: Optimiser step in the run.
        epoch: Pass over the rollout batch, from 0; later passes find every row in memory.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.ref_logprobs is None:
            continue
        origin = RefOrigin.EPOCH if epoch else row.ref_origin
        entry = found.setdefault(
            origin,
            {"phase": phase, "step": step, "origin": str(origin)}
            | {"num_rows": 0, "num_tokens": 0, "seconds": 0.0},
        )
        entry["num_rows"] += 1
        entry["num_tokens"] += len(row.completion_token_ids)
        entry["seconds"] += 0.0 if epoch else row.ref_seconds
    return list(found.values())


def hit_rate(reads: Sequence[dict[str, Any]]) -> float | None:
    """Share of a step's rows that did not have to be scored for it; None without reference."""
    total = sum(read["num_rows"] for read in reads)
    scored = sum(read["num_rows"] for read in reads if read["origin"] == RefOrigin.SCORED)
    return 1 - scored / total if total else None


def reference_fields(read: RefRead | None, position: int | None) -> dict[str, Any]:
    """Fields of a TrainRow that come from the reference."""
    if read is None or position is None:
        return {"ref_logprobs": None}
    return {
        "ref_logprobs": read.logprobs[position],
        "ref_origin": read.origins[position],
        "ref_seconds": read.seconds[position],
    }
