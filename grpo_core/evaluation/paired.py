"""Comparing two checkpoints on the same prompts.

Pairing by prompt takes the difficulty of the prompts out of the comparison, so it sees differences
that two separate intervals would hide.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grpo_core.evaluation.intervals import mean_interval


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean difference of per-prompt values, after minus before.

    Args:
        mean: Mean difference over the prompts.
        low: Lower end of its interval; above 0 the second checkpoint is better.
        high: Upper end; below 0 it is worse.
        num_prompts: Prompts with a value on both sides.
        num_undefined: Prompts without a value on one side, left out.
        num_better: Prompts whose value rose.
        num_worse: Prompts whose value fell.
    """

    mean: float
    low: float
    high: float
    num_prompts: int
    num_undefined: int
    num_better: int
    num_worse: int


def paired_difference(
    before: npt.ArrayLike, after: npt.ArrayLike, *, confidence: float, seed: int
) -> PairedDifference:
    """Return the mean of `after - before` with its bootstrap interval over prompts.

    Args:
        before: [P] values in [0, 1] of the first checkpoint, NaN where undefined.
        after: [P] values of the second, prompts in the same order.
        confidence: Level of the interval.
        seed: Of the bootstrap.

    Raises:
        ValueError: The prompts do not match, or none has a value on both sides.
    """
    first, second = (np.asarray(side, dtype=np.float64) for side in (before, after))
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            f"paired comparison of {first.shape} with {second.shape}: expected the same prompts"
        )
    difference = second - first
    defined = difference[~np.isnan(difference)]
    if not len(defined):
        raise ValueError("paired comparison: no prompt has a value at both checkpoints")
    found = mean_interval(defined, confidence=confidence, seed=seed, limits=(-1.0, 1.0))
    return PairedDifference(
        mean=found.mean,
        low=found.low,
        high=found.high,
        num_prompts=len(defined),
        num_undefined=len(difference) - len(defined),
        num_better=int((defined > 0).sum()),
        num_worse=int((defined < 0).sum()),
    )
