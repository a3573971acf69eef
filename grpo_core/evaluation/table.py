"""pass@k of one checkpoint over a set of prompts."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grpo_core.evaluation.intervals import mean_interval
from grpo_core.evaluation.pass_at_k import pass_at_k

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PassAtKRow:
    """pass@k for one k.

    Args:
        k: Attempts.
        num_prompts: Prompts in the mean: those with at least k decided samples.
        num_undefined: Prompts left out because they have fewer; above 0 the mean is over a subset.
        mean: Mean over prompts (not over pooled samples); None when no prompt has k samples.
        low: Lower end of the interval over prompts, None with the mean.
        high: Upper end, None with the mean.
    """

    k: int
    num_prompts: int
    num_undefined: int
    mean: float | None
    low: float | None
    high: float | None


def pass_at_k_values(
    num_samples: Sequence[int], num_correct: Sequence[int], k: int
) -> npt.NDArray[np.float64]:
    """Return pass@k of each prompt [P]; NaN where a prompt has fewer than k samples.

    Raises:
        ValueError: The lists differ in length, or a count is impossible.
    """
    counts = list(zip(num_samples, num_correct, strict=True))
    values = {(n, c): pass_at_k(n, c, k) if n >= k else _undefined(n, c) for n, c in set(counts)}
    return np.array([values[count] for count in counts], dtype=np.float64)


def pass_at_k_table(
    num_samples: Sequence[int],
    num_correct: Sequence[int],
    *,
    ks: Sequence[int],
    confidence: float,
    seed: int,
) -> list[PassAtKRow]:
    """Return one row per k: mean over prompts with its bootstrap interval.

    A prompt with fewer than k decided samples has no unbiased estimate. It is left out, counted and
    warned about; it is never taken as solved or unsolved.

    Args:
        num_samples: [P] decided samples of each prompt (timeouts and errors are not decided).
        num_correct: [P] correct ones among them.
        ks: Attempts, each >= 1.
        confidence: Level of the intervals.
        seed: Of the bootstrap.
    """
    rows = []
    for k in ks:
        values = pass_at_k_values(num_samples, num_correct, k)
        defined = values[~np.isnan(values)]
        num_undefined = len(values) - len(defined)
        if num_undefined:
            _LOG.warning(
                "pass@%d: %d of %d prompts have fewer than %d decided samples and are left out",
                *(k, num_undefined, len(values), k),
            )
        rows.append(_row(k, defined, num_undefined, confidence, seed))
    return rows


def _row(
    k: int, defined: npt.NDArray[np.float64], num_undefined: int, confidence: float, seed: int
) -> PassAtKRow:
    if not len(defined):
        return PassAtKRow(k, 0, num_undefined, None, None, None)
    found = mean_interval(defined, confidence=confidence, seed=seed)
    return PassAtKRow(k, len(defined), num_undefined, found.mean, found.low, found.high)


def _undefined(n: int, c: int) -> float:
    if not 0 <= c <= n:
        raise ValueError(f"c = {c} correct of n = {n} samples: expected 0 <= c <= n")
    return float("nan")
