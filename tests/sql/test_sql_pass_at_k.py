"""SQL's pass@k is the unbiased estimator, and its audit sees a view that breaks an identity."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from lake_fixture import make_lake

from grpo_core.audits import audit_run
from grpo_core.evaluation import pass_at_k
from grpo_core.store.queries import SQL_DIRECTORY
from grpo_core.store.warehouse import Warehouse


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    lake = make_lake(num_train=8, num_test=40, samples_per_prompt=32, batches_per_phase=1)
    catalog = lake.write(tmp_path_factory.mktemp("lake"))
    with Warehouse(catalog) as warehouse:
        return warehouse.query("select * from prompt_pass_at_k").dicts()


def test_sql_agrees_with_python(rows: list[dict[str, float]]) -> None:
    assert {row["k"] for row in rows} == set(range(1, 33))
    assert {row["c"] for row in rows} > {0, 32}
    for row in rows:
        expected = pass_at_k(int(row["n"]), int(row["c"]), int(row["k"]))
        assert row["estimate"] == pytest.approx(expected, abs=1e-12)


def test_no_estimate_beyond_the_decided_samples(rows: list[dict[str, float]]) -> None:
    assert any(row["n"] < 32 for row in rows)
    assert all(row["k"] <= row["n"] for row in rows)


def test_means_intervals_and_gains(tmp_path: Path) -> None:
    lake = make_lake(num_train=8, num_test=12, batches_per_phase=1)
    with Warehouse(lake.write(tmp_path)) as warehouse:
        each = warehouse.query("select * from prompt_pass_at_k where k = 2").dicts()
        table = warehouse.run_report("pass_at_k_table", {"run": "tiny"}).dicts()
    by_phase = [
        {row["prompt_id"]: row["estimate"] for row in each if row["phase"] == phase}
        for phase in range(3)
    ]
    row = next(row for row in table if row["k"] == 2 and row["phase"] == 2)
    values = np.array(list(by_phase[2].values()))
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert row["estimate"] == pytest.approx(values.mean())
    assert row["low"] == pytest.approx(max(0.0, values.mean() - half))
    gains = np.array([by_phase[2][p] - by_phase[0][p] for p in by_phase[0]])
    assert row["gain"] == pytest.approx(gains.mean())
    assert row["gain_high"] - row["gain"] == pytest.approx(
        1.96 * gains.std(ddof=1) / np.sqrt(len(gains))
    )
    assert row["num_prompts"] == 12


def test_audit_sees_a_biased_estimator(tmp_path: Path) -> None:
    directory = tmp_path / "sql"
    shutil.copytree(SQL_DIRECTORY, directory)
    path = directory / "marts" / "prompt_pass_at_k.sql"
    text = path.read_text(encoding="utf-8")
    assert "range(n - c + 1, n + 1)" in text
    path.write_text(text.replace("range(n - c + 1, n + 1)", "range(n - c, n + 1)"), "utf-8")
    lake = make_lake(num_train=8, batches_per_phase=1)
    results = audit_run(lake.write(tmp_path / "lake"), "tiny", sql_directory=directory)
    fired = {result.name for result in results if result.num_rows}
    assert fired == {"assert_pass_at_k_consistent"}
