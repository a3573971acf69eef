import pyarrow as pa
import pytest

from grpo_core.config.data import BandsConfig
from grpo_core.errors import DataContractError
from grpo_core.prompts.bands import (
    band_of,
    compute_bands,
    informative_group_rate,
    reband,
    wilson_interval,
)
from grpo_core.store.schemas import BANDS

CONFIG = BandsConfig()
GRADED = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("sample_index", pa.int32()),
        ("label", pa.string()),
        ("reward_raw", pa.float64()),
        ("finish_reason", pa.string()),
        ("variant_id", pa.string()),
    ]
)


def graded(prompt_id: str, labels: str, truncated: int = 0) -> list[dict[str, object]]:
    """One row for each letter: c correct, w wrong, u unparseable, h hedged, t timeout."""
    names = {"c": "correct", "w": "wrong", "u": "unparseable", "h": "hedged", "t": "timeout"}
    return [
        {
            "prompt_id": prompt_id,
            "sample_index": index,
            "label": names[letter],
            "reward_raw": {"c": 1.0, "t": None}.get(letter, 0.0),
            "finish_reason": "length" if index < truncated else "stop",
            "variant_id": None,
        }
        for index, letter in enumerate(labels)
    ]


def make(rows, *, longer_budget_next: bool = False, config: BandsConfig = CONFIG) -> list[dict]:
    table = pa.Table.from_pylist(rows, GRADED)
    verdicts = table.select(["prompt_id", "sample_index", "label", "reward_raw"])
    samples = table.select(["prompt_id", "sample_index", "finish_reason"])
    shuffled = samples.take(list(range(samples.num_rows))[::-1])
    bands = compute_bands(shuffled, verdicts, config, 8, 0, longer_budget_next=longer_budget_next)
    assert bands.schema.equals(BANDS.schema)
    return bands.to_pylist()


@pytest.mark.parametrize(
    ("correct", "decided", "band"),
    [
        (0, 32, "unsolved"),
        (1, 32, "hard"),
        (30, 100, "hard"),
        (3, 10, "hard"),
        (31, 100, "medium"),
        (16, 32, "medium"),
        (17, 32, "easy"),
        (31, 32, "easy"),
        (32, 32, "solved"),
        (0, 0, "unknown"),
        (1, 1, "solved"),
    ],
)
def test_edges_are_exact(correct, decided, band):
    assert band_of(correct, decided, CONFIG) == band


@pytest.mark.parametrize("edge", [0.1, 0.29, 0.57, 0.58, 0.7])
def test_an_edge_in_decimals_is_met_exactly(edge):
    config = BandsConfig(hard_max=edge, medium_max=0.9)
    hundredths = round(edge * 100)
    assert band_of(hundredths, 100, config) == "hard"
    assert band_of(hundredths + 1, 100, config) == "medium"


@pytest.mark.parametrize(("correct", "decided"), [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(correct, decided):
    with pytest.raises(ValueError, match="expected 0 <= correct <= decided"):
        band_of(correct, decided, CONFIG)


def test_wilson_known_values():
    # 15 of 50 at 95 %: [0.1910, 0.4375]; 0 of 10: [0, 0.2775]
    assert wilson_interval(15, 50, 0.95) == pytest.approx((0.19102, 0.43750), abs=1e-4)
    low, high = wilson_interval(0, 10, 0.95)
    assert low == 0.0
    assert high == pytest.approx(0.27753, abs=1e-4)
    assert wilson_interval(10, 10, 0.95) == pytest.approx((1 - 0.27753, 1.0), abs=1e-4)


def test_informative_group_rate_by_hand():
    # m = 0, G = 2: E[2 p (1 - p)] under Beta(1/2, 1/2) = 2 * 1/8
    assert informative_group_rate(0, 0, 2) == pytest.approx(0.25)
    # c = 1 of 2, G = 2: Beta(3/2, 3/2): 2 a b / ((a + b)(a + b + 1)) = 2 * 2.25 / 12
    assert informative_group_rate(1, 2, 2) == pytest.approx(0.375)
    assert 0.05 < informative_group_rate(0, 32, 8) < 0.15


def test_counts_nulls_and_interval():
    (row,) = make(graded("a", "ccwuht", truncated=2))
    assert (row["n"], row["num_null"], row["num_truncated"]) == (6, 1, 2)
    assert (row["num_correct"], row["num_wrong"], row["num_unparseable"], row["num_hedged"]) == (
        2,
        1,
        1,
        1,
    )
    assert row["pass_rate"] == pytest.approx(0.4)
    assert row["pass_rate_low"] < 0.4 < row["pass_rate_high"]
    assert (row["band"], row["weight"], row["group_size"], row["phase"]) == ("medium", 0.5, 8, 0)


def test_all_null_is_unknown():
    (row,) = make(graded("a", "ttt"))
    assert (row["band"], row["pass_rate"], row["informative_group_rate"]) == (
        "unknown",
        None,
        None,
    )
    assert row["weight"] == CONFIG.weight_unknown


@pytest.mark.parametrize(
    ("labels", "truncated", "longer", "band"),
    [
        ("uuuu", 2, True, "unknown"),
        ("uuuu", 2, False, "unsolved"),
        ("uuuu", 1, True, "unsolved"),
        ("cuuu", 3, True, "hard"),
        ("uutt", 2, True, "unknown"),
    ],
)
def test_prompts_cut_off_by_the_budget(labels, truncated, longer, band):
    (row,) = make(graded("a", labels, truncated), longer_budget_next=longer)
    assert row["band"] == band
    assert row["weight"] == getattr(CONFIG, f"weight_{band}")


def test_rows_are_sorted_whatever_the_input_order():
    rows = [*graded("b", "cw"), *graded("a", "cc")]
    assert make(rows) == make(rows[::-1])
    assert [row["prompt_id"] for row in make(rows)] == ["a", "b"]


def test_reband_takes_new_counts_and_keeps_the_rest():
    before = pa.Table.from_pylist(
        make([*graded("a", "cccc"), *graded("b", "wwww"), *graded("c", "cwww")]), BANDS.schema
    )
    variant = [{**row, "variant_id": "v"} for row in graded("c", "cccc")]
    rollouts = pa.Table.from_pylist([*variant, *graded("a", "cwww"), *graded("a", "wwww")], GRADED)
    after = reband(before, rollouts, CONFIG, 8, 2, longer_budget_next=False)
    assert after.schema.equals(BANDS.schema)
    rows = {row["prompt_id"]: row for row in after.to_pylist()}
    assert (rows["a"]["n"], rows["a"]["num_correct"], rows["a"]["band"]) == (8, 1, "hard")
    kept = {row["prompt_id"]: row for row in before.to_pylist()}
    assert rows["b"] == {**kept["b"], "phase": 2}
    assert rows["c"] == {**kept["c"], "phase": 2}


def test_reband_refuses_strangers():
    before = pa.Table.from_pylist(make(graded("a", "cw")), BANDS.schema)
    rollouts = pa.Table.from_pylist(graded("z", "cw"), GRADED)
    with pytest.raises(DataContractError, match="1 others, first z"):
        reband(before, rollouts, CONFIG, 8, 1, longer_budget_next=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "maybe"}, "expected one of"),
        ({"finish_reason": "eos"}, "expected one of"),
        ({"reward_raw": None}, "null reward_raw exactly for"),
        ({"sample_index": 1}, "one row a sample"),
    ],
)
def test_broken_samples_are_refused(change, message):
    rows = graded("a", "cw")
    rows[0] = {**rows[0], **change}
    with pytest.raises(DataContractError, match=message):
        make(rows)


def test_each_sample_needs_its_verdict():
    table = pa.Table.from_pylist(graded("a", "cw"), GRADED)
    with pytest.raises(DataContractError, match="2 samples, 1 verdicts"):
        compute_bands(table, table.slice(1), CONFIG, 8, 0, longer_budget_next=False)
