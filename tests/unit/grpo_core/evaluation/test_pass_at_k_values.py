"""Values worked by hand, and inputs without an estimate."""

import numpy as np
import pytest

from grpo_core.evaluation import pass_at_k


@pytest.mark.parametrize(
    ("n", "c", "k", "want"),
    [
        (10, 3, 5, 11 / 12),  # 1 - 21/252; the plug-in estimate says 0.832
        (4, 1, 4, 1.0),  # k = n asks whether any was right
        (4, 1, 1, 0.25),
        (4, 1, 2, 0.5),
        (32, 1, 8, 0.25),
        (32, 1, 16, 0.5),
        (200, 1, 199, 199 / 200),
        (10, 0, 5, 0.0),
        (5, 5, 2, 1.0),
        (4, 2, 2, 5 / 6),
        (32, 4, 8, 1 - 10626 / 35960),  # C(28,8)/C(32,8) = C(24,4)/C(32,4)
        (1000, 3, 500, 583 / 666),  # factorials of 1000 overflow a float
    ],
)
def test_by_hand(n, c, k, want):
    assert pass_at_k(n, c, k) == pytest.approx(want, rel=1e-12, abs=1e-15)


def test_never_solved_is_plain_zero():
    assert str(pass_at_k(10, 0, 5)) == "0.0"


def test_small_values_keep_their_digits():
    """1 - product loses five digits here: 9.99999999995449e-06."""
    assert abs(pass_at_k(100_000, 1, 1) - 1e-5) < 1e-19
    assert pass_at_k(10**6, 2, 3) == pytest.approx(6e-6 - 6e-12, rel=1e-9)


def test_large_counts_are_quick_and_finite():
    assert pass_at_k(10**9, 10**9 - 5, 4) == 1.0
    assert 0 < pass_at_k(2_000_000, 7, 300_000) < 1


@pytest.mark.parametrize(
    ("n", "c", "k"),
    [(2, 0, 5), (3, 1, 5), (4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, -2), (-1, 0, 1), (0, 0, 1)],
)
def test_what_has_no_estimate_is_an_error_and_never_one(n, c, k):
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(n, c, k)


def test_counts_are_whole_numbers():
    assert pass_at_k(np.int64(10), np.int32(3), 5) == pass_at_k(10, 3, 5)
    with pytest.raises(TypeError):
        pass_at_k(10.0, 3, 5)
