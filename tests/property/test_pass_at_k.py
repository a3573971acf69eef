"""pass@k against exact fractions, and what must hold for every n, c and k."""

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.evaluation import pass_at_k

ROUNDING = 1e-13


@st.composite
def counts(draw, largest=400):
    n = draw(st.integers(1, largest))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


def exact(n: int, c: int, k: int) -> Fraction:
    return 1 - Fraction(comb(n - c, k), comb(n, k))


@given(counts())
def test_it_is_the_exact_fraction(args):
    want = exact(*args)
    assert pass_at_k(*args) == pytest.approx(float(want), rel=1e-12, abs=0)


@given(counts(largest=9))
def test_it_is_the_share_of_subsets_with_a_correct_sample(args):
    n, c, k = args
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-14)


@given(counts())
def test_it_lies_in_the_unit_interval_with_the_ends_exact(args):
    n, c, k = args
    value = pass_at_k(n, c, k)
    assert 0.0 <= value <= 1.0
    assert (value == 0.0) == (c == 0)
    assert pass_at_k(n, c, n) == (1.0 if c else 0.0)
    assert pass_at_k(n, c, 1) == c / n


@given(counts())
def test_it_rises_with_k_and_with_c(args):
    n, c, k = args
    if k < n:
        assert pass_at_k(n, c, k + 1) >= pass_at_k(n, c, k) - ROUNDING
    if c < n:
        assert pass_at_k(n, c + 1, k) >= pass_at_k(n, c, k) - ROUNDING


@given(counts(largest=60))
def test_it_is_unbiased_over_subsamples(args):
    """Averaged over which n of N samples were seen, it is the value of all N."""
    total, correct, k = args
    seen = max(k, total // 2)
    mean = sum(
        Fraction(comb(correct, c) * comb(total - correct, seen - c), comb(total, seen))
        * Fraction(pass_at_k(seen, c, k))
        for c in range(max(0, seen - (total - correct)), min(correct, seen) + 1)
    )
    assert float(mean) == pytest.approx(float(exact(total, correct, k)), abs=1e-12)


@given(counts())
def test_the_plug_in_estimate_is_never_above_it(args):
    """1 - (1 - c/n)^k underrates: it draws with replacement."""
    n, c, k = args
    assert 1 - (1 - c / n) ** k <= pass_at_k(n, c, k) + 1e-12
