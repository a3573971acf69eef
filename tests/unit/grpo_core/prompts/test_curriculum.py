from collections import Counter

import pyarrow as pa
import pytest

from grpo_core.config.data import VariantsConfig
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.prompts.curriculum import (
    draw_groups,
    draw_prompts,
    select_suffixes,
    variants_by_prompt,
)

WEIGHTS = {"unsolved": 0.1, "hard": 1.0, "solved": 0.0}


def bands(**counts: int) -> pa.Table:
    rows = [
        {"prompt_id": f"{band}{index}", "band": band, "weight": WEIGHTS[band]}
        for band, count in counts.items()
        for index in range(count)
    ]
    return pa.Table.from_pylist(rows)


def test_draw_has_no_repeats_and_ignores_row_order():
    table = bands(hard=30, unsolved=30)
    drawn = draw_prompts(table, num_prompts=20, seed=(0, 5))
    assert len(set(drawn)) == 20
    backwards = table.take(list(range(60))[::-1])
    assert drawn == draw_prompts(backwards, num_prompts=20, seed=(0, 5))
    assert drawn != draw_prompts(table, num_prompts=20, seed=(0, 6))
    assert drawn[:7] == draw_prompts(table, num_prompts=7, seed=(0, 5))


def test_first_draw_follows_the_weights():
    table = bands(hard=1, unsolved=1, solved=1)
    firsts = Counter(
        draw_prompts(table, num_prompts=1, seed=("test", step))[0] for step in range(4000)
    )
    assert firsts["solved0"] == 0
    assert firsts["unsolved0"] / 4000 == pytest.approx(0.1 / 1.1, abs=0.02)


def test_excluded_prompts_leave_the_others_in_order():
    table = bands(hard=10)
    drawn = draw_prompts(table, num_prompts=10, seed=(1,))
    rest = draw_prompts(table, num_prompts=6, seed=(1,), exclude=drawn[:4])
    assert rest == drawn[4:]


def test_too_few_prompts_names_bands_and_settings():
    with pytest.raises(DataContractError) as caught:
        draw_prompts(bands(hard=2, solved=9), num_prompts=4, seed=(0,), exclude=["hard1"])
    assert "expected at least 4 with a positive weight, got 1" in str(caught.value)
    assert "hard 1 of 2" in str(caught.value)
    assert "solved 0 of 9" in str(caught.value)
    assert "bands.weight_" in caught.value.hint


def groups(count: int = 400, **changes):
    settings = {
        "group_size": 8,
        "variants": {f"p{index}": [f"v{index}b", f"v{index}a"] for index in range(0, count, 2)},
        "variant_share": 0.5,
        "suffix_ids": ("brief", "steps"),
        "suffix_share": 0.25,
        "seed": (0, "train", 1),
    }
    return draw_groups([f"p{index}" for index in range(count)], **{**settings, **changes})


def test_groups_follow_the_shares():
    plans = groups()
    assert [plan.group for plan in plans] == list(range(400))
    assert all(plan.group_size == 8 for plan in plans)
    with_variant = [plan for plan in plans if plan.variant_id]
    assert all(plan.variant_id[1:-1] == plan.prompt_id[1:] for plan in with_variant)
    assert len(with_variant) / 200 == pytest.approx(0.5, abs=0.1)
    suffixes = Counter(suffix for plan in plans for suffix in plan.suffix_ids)
    assert suffixes[None] / 3200 == pytest.approx(0.75, abs=0.03)
    assert suffixes["brief"] / 3200 == pytest.approx(0.125, abs=0.03)


def test_a_group_does_not_depend_on_its_batch():
    plans = groups()
    (alone,) = draw_groups(
        ["p8"],
        group_size=8,
        variants={"p8": ["v8a", "v8b"]},
        variant_share=0.5,
        suffix_ids=("brief", "steps"),
        suffix_share=0.25,
        seed=(0, "train", 1),
        first_group=8,
    )
    assert alone == plans[8]


@pytest.mark.parametrize("changes", [{"suffix_ids": ()}, {"suffix_share": 0.0}])
def test_no_suffixes(changes):
    assert all(plan.suffix_ids == (None,) * 8 for plan in groups(20, **changes))


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 10)])
def test_variant_share_bounds(share, expected):
    assert sum(plan.variant_id is not None for plan in groups(20, variant_share=share)) == expected


def test_suffix_selection():
    shipped = {"steps": "Solve step by step.", "brief": "Be brief."}
    assert select_suffixes(VariantsConfig(), shipped) == ("steps", "brief")
    assert select_suffixes(VariantsConfig(suffixes=("brief",)), shipped) == ("brief",)
    with pytest.raises(ConfigError, match="did you mean 'steps'"):
        select_suffixes(VariantsConfig(suffixes=("stps",)), shipped)


def test_variants_by_prompt():
    table = pa.table({"prompt_id": ["a", "b", "a"], "variant_id": ["2", "3", "1"]})
    assert variants_by_prompt(table) == {"a": ("1", "2"), "b": ("3",)}
