"""Every audit passes on a lake that keeps its contracts and fires on one that breaks its own."""

import copy
from pathlib import Path

import pytest
from lake_fixture import LakeFixture
from mutations import MUTATIONS, Mutation

from grpo_core.audits import audit_run
from grpo_core.reporting.training import training_section
from grpo_core.store.catalog import Catalog
from grpo_core.store.queries import read_queries
from grpo_core.store.results import AuditResult
from grpo_core.store.schemas import TABLES
from grpo_core.store.warehouse import Warehouse

AUDITS = {name: query for name, query in read_queries().items() if query.kind == "audit"}
PARAMS = {
    "samples_per_prompt": 8,
    "eval_samples_per_prompt": 8,
    "group_size": 4,
    "kl_enabled": True,
    "advantage_std": "sample",
    "advantage_eps": 1e-6,
    "advantage_clip": 10.0,
}
Results = dict[str, AuditResult]
WITHOUT_MUTATION = {"assert_pass_at_k_consistent"}
"""Checks an identity of a view, which no change of the rows can break; see test_pass_at_k."""


@pytest.fixture(scope="module")
def sound(lake: LakeFixture) -> LakeFixture:
    return lake


@pytest.fixture(scope="module")
def sound_results(catalog: Catalog) -> Results:
    return {result.name: result for result in audit_run(catalog, "tiny", PARAMS, deep=True)}


@pytest.mark.parametrize("name", AUDITS)
def test_audit_passes_on_sound_lake(name: str, sound_results: Results) -> None:
    assert sound_results[name].rows == ()


def test_every_audit_has_a_firing_fixture() -> None:
    assert set(MUTATIONS) == set(AUDITS) - WITHOUT_MUTATION


@pytest.mark.parametrize(
    ("name", "mutation"),
    [
        pytest.param(name, mutation, id=f"{name}-{label}")
        for name, mutations in MUTATIONS.items()
        for label, mutation in mutations.items()
    ],
)
def test_audit_fires(name: str, mutation: Mutation, sound: LakeFixture, tmp_path: Path) -> None:
    lake = copy.deepcopy(sound)
    mutation(lake)
    result = run_one(lake.write(tmp_path, like=sound), name)
    assert result.num_rows > 0
    assert set(result.rows[0]) == set(AUDITS[name].columns)


def test_rows_of_an_older_cache_are_unproved_and_not_missing(
    sound: LakeFixture, tmp_path: Path
) -> None:
    lake = copy.deepcopy(sound)
    lake.ref_rows.clear()
    name = "assert_trained_rollouts_in_ref_cache"
    assert run_one(lake.write(tmp_path / "own", like=sound), name).num_rows > 0
    lake.has_older_cache = True
    assert run_one(lake.write(tmp_path / "older", like=sound), name).num_rows == 0


def run_one(catalog: Catalog, name: str) -> AuditResult:
    with Warehouse(catalog) as warehouse:
        for other in [n for n, query in warehouse.queries.items() if query.kind == "audit"]:
            if other != name:
                del warehouse.queries[other]
        known = {parameter.name for parameter in AUDITS[name].params}
        params = {key: value for key, value in PARAMS.items() if key in known}
        return warehouse.run_audits(params, deep=True)[0]


def test_defaults_need_no_parameters(sound: LakeFixture, tmp_path: Path) -> None:
    results = audit_run(sound.write(tmp_path, like=sound), "tiny")
    assert [result.name for result in results if result.num_rows] == []
    assert {result.name for result in results} == {n for n, q in AUDITS.items() if not q.is_deep}


def test_counts_go_beyond_the_rows_shown(sound: LakeFixture, tmp_path: Path) -> None:
    lake = copy.deepcopy(sound)
    for row in lake.rows("samples", "samples"):
        row["finish_reason"] = "abort"
    result = run_one(lake.write(tmp_path, like=sound), "assert_finish_reason_matches_length")
    assert result.num_rows == len(lake.rows("samples", "samples"))
    assert len(result.rows) == 20
    assert result.is_blocking


def test_a_step_that_was_not_taken_is_sound_and_outside_of_means(
    sound: LakeFixture, tmp_path: Path
) -> None:
    lake = copy.deepcopy(sound)
    steps = lake.rows("train/1", "steps")
    first = min(steps, key=lambda row: row["step"])
    absent = {f.name for f in TABLES["steps"].schema if f.nullable} - {"ref_cache_hit_rate"}
    first |= dict.fromkeys(absent) | {"num_live_tokens": 0, "effective_token_fraction": 0.0}
    catalog = lake.write(tmp_path, like=sound)
    for name in ("assert_steps_finite", "assert_step_rates_within_bounds"):
        assert run_one(catalog, name).rows == ()
    with Warehouse(catalog) as warehouse:
        (phase,) = warehouse.query("select * from phase_summary where phase = 1").dicts()
        curve = warehouse.run_report("training_curves", {"run": "tiny"}).dicts()
    taken = [row for row in steps if row is not first]
    assert phase["clip_fraction_mean"] == pytest.approx(
        sum(row["clip_fraction"] for row in taken) / len(taken)
    )
    assert phase["policy_entropy_first"] == taken[0]["policy_entropy_nats"]
    assert phase["ref_kl_k3_last"] == taken[-1]["ref_kl_k3"]
    assert curve[0]["loss"] is None
    page = training_section(curve, [phase], []).body
    assert 'class="line' in page
    assert "None" not in page
