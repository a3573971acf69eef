from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from grpo_core.config.data import BandsConfig
from grpo_core.prompts.bands import band_of, informative_group_rate, wilson_interval
from grpo_core.types import Band

ORDER = [Band.UNSOLVED, Band.HARD, Band.MEDIUM, Band.EASY, Band.SOLVED]


@st.composite
def counts(draw) -> tuple[int, int]:
    decided = draw(st.integers(1, 200))
    return draw(st.integers(0, decided)), decided


edges = st.tuples(st.integers(1, 98), st.integers(1, 98)).filter(lambda e: e[0] < e[1])


@given(counts(), edges)
def test_bands_partition_the_unit_interval(pair, edge):
    correct, decided = pair
    low, high = (Fraction(part, 100) for part in edge)
    config = BandsConfig(hard_max=float(low), medium_max=float(high))
    rate = Fraction(correct, decided)
    inside = {
        Band.UNSOLVED: rate == 0,
        Band.HARD: 0 < rate <= low,
        Band.MEDIUM: low < rate <= high,
        Band.EASY: high < rate < 1,
        Band.SOLVED: rate == 1,
    }
    assert [band for band, holds in inside.items() if holds] == [band_of(correct, decided, config)]


@given(counts(), counts())
def test_a_higher_pass_rate_is_never_a_harder_band(one, other):
    config = BandsConfig()
    first, second = sorted((one, other), key=lambda pair: Fraction(*pair))
    assert ORDER.index(band_of(*first, config)) <= ORDER.index(band_of(*second, config))


@given(counts(), st.floats(0.5, 0.999))
def test_interval_holds_the_pass_rate(pair, confidence):
    correct, decided = pair
    low, high = wilson_interval(correct, decided, confidence)
    assert 0 <= low <= correct / decided + 1e-12
    assert correct / decided - 1e-12 <= high <= 1


@given(counts(), st.floats(0.5, 0.99))
def test_interval_mirrors(pair, confidence):
    correct, decided = pair
    low, high = wilson_interval(correct, decided, confidence)
    mirrored_low, mirrored_high = wilson_interval(decided - correct, decided, confidence)
    assert abs(low - (1 - mirrored_high)) < 1e-9
    assert abs(high - (1 - mirrored_low)) < 1e-9


@given(counts(), st.integers(2, 64))
def test_informative_rate_is_a_rate_and_symmetric(pair, group_size):
    correct, decided = pair
    rate = informative_group_rate(correct, decided, group_size)
    assert 0 <= rate < 1
    assert abs(rate - informative_group_rate(decided - correct, decided, group_size)) < 1e-9


@given(counts(), st.integers(2, 32))
def test_larger_groups_are_more_often_informative(pair, group_size):
    assert informative_group_rate(*pair, group_size) < informative_group_rate(*pair, group_size + 1)
