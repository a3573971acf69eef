"""The unbiased estimator of pass@k (arXiv 2107.03374, section 2.1, equation 1)."""

from math import expm1, fsum, log1p
from operator import index


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the chance that at least one of k samples is correct, from c correct among n.

    1 - C(n - c, k) / C(n, k), which is the share of all k-subsets of the n samples that hold a
    correct one. The ratio is the product of 1 - k / i over i = n - c + 1 .. n, or the same with c
    and k swapped, whichever has fewer factors; logarithms keep every digit of a result near 0.

    Args:
        n: Samples drawn.
        c: Correct ones among them.
        k: Attempts, 1 <= k <= n: above n no unbiased estimate exists.

    Raises:
        ValueError: k < 1, k > n, c < 0 or c > n.

    Example:
        >>> round(pass_at_k(10, 3, 5), 6)  # 1 - C(7, 5) / C(10, 5) = 11 / 12
        0.916667
    """
    n, c, k = index(n), index(c), index(k)
    if not 0 <= c <= n:
        raise ValueError(f"c = {c} correct of n = {n} samples: expected 0 <= c <= n")
    if not 1 <= k <= n:
        raise ValueError(f"pass@k with k = {k} and n = {n} samples: expected 1 <= k <= n")
    if c + k > n:
        return 1.0
    if k == 1 or c <= 1:
        return c * k / n
    factors, removed = min(c, k), max(c, k)
    return -expm1(fsum(log1p(-removed / i) for i in range(n - factors + 1, n + 1)))
