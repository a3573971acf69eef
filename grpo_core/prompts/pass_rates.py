"""What c correct of m decided samples say about a pass rate: band, interval, worth of a group.

Band edges are compared with c / m as exact fractions, so 30 of 100 is `hard` at an edge of 0.30.
"""

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from grpo_core.config.data import BandsConfig
from grpo_core.types import Band


def band_of(num_correct: int, num_decided: int, config: BandsConfig) -> Band:
    """Return the band of `num_correct` / `num_decided`; `unknown` when nothing was decided.

    unsolved 0, hard (0, hard_max], medium (hard_max, medium_max], easy (medium_max, 1), solved 1.

    Raises:
        ValueError: Not 0 <= num_correct <= num_decided.
    """
    if not 0 <= num_correct <= num_decided:
        raise ValueError(f"expected 0 <= correct <= decided, got {num_correct} of {num_decided}")
    if num_decided == 0:
        return Band.UNKNOWN
    if num_correct == 0:
        return Band.UNSOLVED
    if num_correct == num_decided:
        return Band.SOLVED
    pass_rate = Fraction(num_correct, num_decided)
    if pass_rate <= as_written(config.hard_max):
        return Band.HARD
    return Band.MEDIUM if pass_rate <= as_written(config.medium_max) else Band.EASY


def wilson_interval(num_correct: int, num_decided: int, confidence: float) -> tuple[float, float]:
    """Return the Wilson score interval of a pass rate, inside [0, 1].

    centre (c + z²/2) / (m + z²), half width z / (m + z²) · sqrt(c (m - c) / m + z²/4), with z the
    normal quantile at (1 + confidence) / 2 (Wilson 1927). Exactly 0 or 1 on the side where c is.

    Raises:
        ValueError: Not 0 <= num_correct <= num_decided with num_decided >= 1.
    """
    c, m = num_correct, num_decided
    if m < 1 or not 0 <= c <= m:
        raise ValueError(f"expected 0 <= correct <= decided >= 1, got {c} of {m}")
    z = _normal_quantile((1 + confidence) / 2)
    centre = (c + z * z / 2) / (m + z * z)
    half_width = z / (m + z * z) * math.sqrt(c * (m - c) / m + z * z / 4)
    low = 0.0 if c == 0 else max(0.0, centre - half_width)
    high = 1.0 if c == m else min(1.0, centre + half_width)
    return low, high


def informative_group_rate(num_correct: int, num_decided: int, group_size: int) -> float:
    """Return the expected share of groups of `group_size` rollouts with unequal rewards.

    The posterior mean of 1 - p^G - (1 - p)^G under the Jeffreys prior, p ~ Beta(c + 1/2, m - c +
    1/2), by E[p^G] = prod over i < G of (a + i) / (a + b + i). The plug-in value at c / m would
    call every prompt with no success in 32 samples hopeless and every one without a failure spent;
    both are drawn at a low weight because they may not be.

    Raises:
        ValueError: Not 0 <= num_correct <= num_decided, or group_size < 2.
    """
    if group_size < 2 or not 0 <= num_correct <= num_decided:
        raise ValueError(
            "expected 0 <= correct <= decided and group_size >= 2, "
            f"got {num_correct} of {num_decided}, {group_size}"
        )
    a, b = num_correct + 0.5, num_decided - num_correct + 0.5
    all_correct = math.prod((a + i) / (a + b + i) for i in range(group_size))
    none_correct = math.prod((b + i) / (a + b + i) for i in range(group_size))
    return max(0.0, 1.0 - all_correct - none_correct)


def as_written(value: float) -> Fraction:
    """Return the decimal that was configured, not its nearest binary fraction."""
    return Fraction(repr(value))


@lru_cache(maxsize=16)
def _normal_quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
