"""Confidence interval of a mean over prompts.

Prompts, not samples, are what an evaluation drew from a population, so they are what is resampled:
the samples of one prompt are not independent trials of the same thing.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_RESAMPLES = 10_000
_DRAWS_AT_ONCE = 4_000_000
"""Indices alive at the same time (32 MB)."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval.

    Args:
        mean: Mean over prompts.
        low: Lower end.
        high: Upper end.
    """

    mean: float
    low: float
    high: float


def mean_interval(
    values: npt.ArrayLike,
    *,
    confidence: float,
    seed: int,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Interval:
    """Return the mean of per-prompt values with its percentile bootstrap interval over prompts.

    10,000 resamples of the P prompts with replacement, from a Philox stream keyed by `seed`. Equal
    values would give an interval of width 0, as if 20 unsolved prompts proved that none can be
    solved. There the exact bound is used: with confidence 1 - a, at most a share
    q = 1 - (a / 2)^(1 / P) of the population differs from the common value, so the mean lies within
    q of the way to either limit. (All 0 or all 1: the Clopper-Pearson bound.)

    Args:
        values: [P], one per prompt, within `limits`; P >= 1.
        confidence: Level in (0, 1).
        seed: Of the resampling.
        limits: Smallest and largest possible value.

    Raises:
        ValueError: No value, a value outside the limits or not finite, or no level in (0, 1).
    """
    array = _checked(values, confidence, limits)
    mean, tail = float(array.mean()), (1.0 - confidence) / 2
    if array.min() == array.max():
        value, share = float(array[0]), 1.0 - tail ** (1.0 / len(array))
        low, high = limits
        return Interval(value, value - share * (value - low), value + share * (high - value))
    ends = np.quantile(_bootstrap_means(array, seed), (tail, 1.0 - tail))
    return Interval(mean, float(ends[0]), float(ends[1]))


def _bootstrap_means(array: Values, seed: int) -> Values:
    """Means [R] of R resamples, made in pieces of bounded memory."""
    generator = np.random.Generator(np.random.Philox(key=seed))
    size = len(array)
    means = np.empty(_RESAMPLES)
    step = max(1, _DRAWS_AT_ONCE // size)
    for start in range(0, _RESAMPLES, step):
        rows = min(step, _RESAMPLES - start)
        means[start : start + rows] = array[generator.integers(size, size=(rows, size))].mean(1)
    return means


def _checked(values: npt.ArrayLike, confidence: float, limits: tuple[float, float]) -> Values:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"expected one value per prompt, got an array of shape {array.shape}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence {confidence} is not in (0, 1)")
    if not (limits[0] <= array.min() and array.max() <= limits[1]):  # False for NaN as well
        raise ValueError(f"values reach from {array.min()} to {array.max()}, outside {limits}")
    return array
