"""The final summary: stages, bands, pass@k with intervals and paired gain, waste."""

import copy
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from lake_fixture import LakeFixture, make_lake
from rich.console import Console

from grpo_core.reporting.summary import (
    RunSummary,
    StageLine,
    final_summary,
    merge_stages,
    render_summary,
)
from grpo_core.store.warehouse import Warehouse


@pytest.fixture(scope="module")
def lake() -> LakeFixture:
    return make_lake()


@pytest.fixture(scope="module")
def warehouse(lake: LakeFixture, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with Warehouse(lake.write(tmp_path_factory.mktemp("lake"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def summary(warehouse: Warehouse) -> RunSummary:
    return final_summary(warehouse, "tiny", report=Path("lake/runs/tiny/report.html"))


def test_totals_are_those_of_the_attempt(lake: LakeFixture, summary: RunSummary) -> None:
    assert summary.tokens == sum(row["tokens"] for row in lake.all_rows("timings"))
    assert summary.seconds == pytest.approx(sum(r["seconds"] for r in lake.all_rows("timings")))


def test_bands_count_prompts(lake: LakeFixture, summary: RunSummary) -> None:
    first = [line for line in summary.bands if line.phase == 0]
    assert sum(line.num_prompts for line in first) == len(lake.rows("bands/0", "bands"))
    assert {line.phase for line in summary.bands} == {0, 1, 2}


def test_pass_lines_have_base_phases_and_gain(summary: RunSummary) -> None:
    ones = [line for line in summary.pass_at_k if line.k == 1]
    assert [line.checkpoint for line in ones] == ["base", "phase 1", "phase 2"]
    assert ones[0].gain is None
    assert ones[2].gain == pytest.approx(ones[2].estimate - ones[0].estimate)
    assert ones[2].gain_low is not None
    assert ones[2].gain_high is not None
    assert ones[2].gain_low <= ones[2].gain <= ones[2].gain_high
    assert all(line.low <= line.estimate <= line.high for line in ones)
    assert {line.k for line in summary.pass_at_k} <= {1, 4, 8}


def test_k_that_many_problems_lack_samples_for_is_left_out(
    lake: LakeFixture, tmp_path: Path
) -> None:
    broken = copy.deepcopy(lake)
    for row in broken.rows("eval_verdicts/base", "eval_verdicts"):
        if row["sample_index"] == 0:
            row |= {"label": "timeout", "reward_raw": None}
    with Warehouse(broken.write(tmp_path)) as warehouse:
        lines = final_summary(warehouse, "tiny").pass_at_k
    assert (0, 8) not in {(line.phase, line.k) for line in lines}
    assert (0, 4) in {(line.phase, line.k) for line in lines}


def test_equal_values_still_have_a_width(lake: LakeFixture, tmp_path: Path) -> None:
    hopeless = copy.deepcopy(lake)
    for row in hopeless.rows("eval_verdicts/base", "eval_verdicts"):
        row |= {"label": "wrong", "reward_raw": 0.0}
    with Warehouse(hopeless.write(tmp_path)) as warehouse:
        base = final_summary(warehouse, "tiny").pass_at_k[0]
    assert (base.estimate, base.low) == (0.0, 0.0)
    assert base.high > 0.2


def test_waste_shares_add_up(summary: RunSummary) -> None:
    for phase in (1, 2):
        lines = [line for line in summary.waste if line.phase == phase]
        assert sum(line.token_share for line in lines) == pytest.approx(1.0)


def test_rendering_fits_eighty_columns(summary: RunSummary) -> None:
    stream = io.StringIO()
    render_summary(summary, Console(file=stream, width=80))
    text = stream.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    for word in ("prefilter", "train/2", "evaluate", "total", "gain", "carry loss", "report.html"):
        assert word in text


def test_empty_run_renders(warehouse: Warehouse) -> None:
    stream = io.StringIO()
    render_summary(final_summary(warehouse, "nothing"), Console(file=stream, width=80))
    assert "total" in stream.getvalue()


def test_stage_is_reused_only_when_all_its_nodes_are() -> None:
    lines = [
        StageLine("prefilter", "samples", "Reused", 0.1, 0),
        StageLine("prefilter", "bands/0", "Computed", 0.2, 5),
        StageLine("train", "train/1", "Reused", 0.0, 0),
        StageLine("train", "train/2", "Computed", 3.0, 9),
        StageLine("train", "bands/1", "Reused", 0.0, 0),
    ]
    merged = {line.label: (line.state, line.tokens) for line in merge_stages(lines)}
    assert merged["prefilter"] == ("Computed", 5)
    assert merged["train/1"] == ("Reused", 0)
    assert merged["train/2"] == ("Computed", 9)
