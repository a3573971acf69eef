import numpy as np
import pytest

from grpo_core.evaluation import (
    mean_interval,
    paired_difference,
    pass_at_k_table,
    pass_at_k_values,
)


def interval(values, **changes):
    return mean_interval(values, **({"confidence": 0.95, "seed": 0} | changes))


def test_it_is_near_the_normal_interval_for_many_prompts():
    values = np.random.default_rng(1).beta(0.5, 0.8, 800)
    found = interval(values)
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.05 * half)


@pytest.mark.slow
def test_it_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(2)
    trials = generator.binomial(8, generator.beta(1, 2, (200, 60))) / 8
    found = [interval(values, seed=i) for i, values in enumerate(trials)]
    covered = np.mean([row.low <= 1 / 3 <= row.high for row in found])
    assert 0.89 <= covered <= 0.99


def test_the_seed_fixes_it_and_confidence_widens_it():
    values = np.random.default_rng(3).random(50)
    assert interval(values) == interval(values)
    assert interval(values) != interval(values, seed=1)
    wide, narrow = interval(values, confidence=0.99), interval(values, confidence=0.8)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_resampling_in_pieces_is_the_same(monkeypatch):
    values = np.random.default_rng(3).random(50)
    want = interval(values)
    monkeypatch.setattr("grpo_core.evaluation.intervals._DRAWS_AT_ONCE", 7_000)
    assert interval(values) == want


def test_prompts_that_were_never_solved_do_not_prove_that_none_can_be():
    """The Clopper-Pearson bound, 1 - 0.025^(1/20); a bootstrap would say [0, 0]."""
    never = interval([0.0] * 20)
    assert (never.mean, never.low) == (0.0, 0.0)
    assert never.high == pytest.approx(1 - 0.025 ** (1 / 20))
    always = interval([1.0] * 20)
    assert always.high == 1.0
    assert always.low == pytest.approx(0.025 ** (1 / 20))


def test_one_prompt_says_next_to_nothing():
    found = interval([0.5])
    assert found.low < 0.02
    assert found.high > 0.98


@pytest.mark.parametrize("bad", [[], [[0.5]], [0.5, 1.1], [-0.1], [float("nan"), 0.5]])
def test_values_that_are_no_shares_are_refused(bad):
    with pytest.raises(ValueError, match=r"expected one value|outside"):
        interval(bad)


def test_confidence_is_a_level():
    with pytest.raises(ValueError, match="confidence 95"):
        interval([0.5, 0.6], confidence=95)


def test_the_table_is_a_mean_over_prompts_not_over_pooled_samples():
    (row,) = pass_at_k_table([4, 4], [4, 0], ks=[4], confidence=0.95, seed=0)
    assert row.mean == 0.5  # pooled: 1 - C(4,4)/C(8,4) = 0.986
    assert (row.k, row.num_prompts, row.num_undefined) == (4, 2, 0)
    assert (row.low, row.high) == (0.0, 1.0)


def test_prompts_with_too_few_samples_are_left_out_counted_and_warned_about(caplog):
    rows = pass_at_k_table([8, 8, 2, 3], [4, 0, 0, 1], ks=[1, 5], confidence=0.9, seed=0)
    assert [(r.k, r.num_prompts, r.num_undefined) for r in rows] == [(1, 4, 0), (5, 2, 2)]
    assert rows[0].mean == pytest.approx((4 / 8 + 0 + 0 + 1 / 3) / 4)
    assert rows[1].mean == pytest.approx((1 - 0 / 56) / 2)
    assert "pass@5: 2 of 4 prompts" in caplog.text


def test_no_prompt_with_enough_samples_gives_no_number():
    (row,) = pass_at_k_table([2, 3], [0, 1], ks=[5], confidence=0.95, seed=0)
    assert (row.mean, row.low, row.high, row.num_undefined) == (None, None, None, 2)


def test_values_are_per_prompt_and_nan_where_undefined():
    values = pass_at_k_values([10, 2, 10], [3, 0, 3], 5)
    assert values[[0, 2]] == pytest.approx(11 / 12)
    assert np.isnan(values[1])
    with pytest.raises(ValueError, match="c = 3 correct of n = 2"):
        pass_at_k_values([2], [3], 5)


def test_pairing_sees_what_separate_intervals_hide():
    generator = np.random.default_rng(4)
    before = generator.beta(0.4, 0.4, 100)
    after = np.clip(before + generator.normal(0.03, 0.05, 100), 0, 1)
    found = paired_difference(before, after, confidence=0.95, seed=0)
    assert found.mean == pytest.approx((after - before).mean())
    assert 0 < found.low < found.mean < found.high
    assert interval(before).high > interval(after).low
    assert found.num_better + found.num_worse <= found.num_prompts == 100


def test_swapping_the_checkpoints_turns_the_sign():
    before, after = np.random.default_rng(5).random((2, 40))
    there = paired_difference(before, after, confidence=0.95, seed=0)
    back = paired_difference(after, before, confidence=0.95, seed=0)
    assert there.mean == pytest.approx(-back.mean)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=5e-3)
    assert (there.num_better, there.num_worse) == (back.num_worse, back.num_better)


def test_no_difference_anywhere_is_not_proof_of_equality():
    values = [0.25, 0.5, 0.0, 1.0]
    found = paired_difference(values, values, confidence=0.95, seed=0)
    assert found.mean == 0
    assert found.low == pytest.approx(-found.high)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 4))


def test_prompts_without_a_value_on_one_side_are_left_out():
    found = paired_difference(
        [0.1, float("nan"), 0.3], [0.2, 0.5, float("nan")], confidence=0.95, seed=0
    )
    assert (found.num_prompts, found.num_undefined) == (1, 2)


def test_other_prompts_cannot_be_paired():
    with pytest.raises(ValueError, match="same prompts"):
        paired_difference([0.1, 0.2], [0.1], confidence=0.95, seed=0)
    with pytest.raises(ValueError, match="no prompt"):
        paired_difference([float("nan")], [0.1], confidence=0.95, seed=0)
