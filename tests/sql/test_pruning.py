"""A query of one run, stage or phase opens no file of another: theirs are destroyed and it runs."""

import dataclasses
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from lake_fixture import STAGES, LakeFixture, make_lake, phase_of
from small_run import node

from grpo_core.audits import restrict_to_run
from grpo_core.errors import DataContractError
from grpo_core.store.artifacts import Draft
from grpo_core.store.catalog import Catalog, CatalogEntry, narrow
from grpo_core.store.files import write_json
from grpo_core.store.lake import Lake
from grpo_core.store.queries import read_queries
from grpo_core.store.schemas import TABLES
from grpo_core.store.warehouse import Warehouse

RUNS = ("a", "b")
VIEWS = [name for name, query in read_queries().items() if query.kind in ("run", "mart")]


def publish(lake: Lake, fixture: LakeFixture) -> None:
    nodes = {}
    for label, rows in fixture.nodes.items():
        kind = label.split("/")[0]
        tables = {name: pa.Table.from_pylist(r, TABLES[name].schema) for name, r in rows.items()}
        artifact = lake.store.publish(
            Draft(kind, STAGES[kind], fixture.key(label), {}, tables=tables)
        )
        phase = phase_of(label)
        nodes[label] = node(artifact, kind, stage=STAGES[kind], label=label, phase=phase)
    directory = lake.run_directory(fixture.run)
    write_json(directory / "run.json", {"attempt": 1, "nodes": nodes})
    write_json(directory / "attempts/1.json", {"attempt": 1, "nodes": list(nodes.values())})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = Lake(tmp_path_factory.mktemp("published"))
    for seed, run in enumerate(RUNS):
        publish(lake, make_lake(run=run, num_train=8, groups_per_batch=3, seed=seed))
    return lake.root


@pytest.fixture
def lake(published: Path, tmp_path: Path) -> Lake:
    return Lake(shutil.copytree(published, tmp_path / "lake"))


def destroy(catalog: Catalog, is_foreign: Callable[[CatalogEntry], bool]) -> int:
    """Overwrite the Parquet files of some artefacts, sizes kept; returns how many."""
    foreign = [entry for entry in catalog.entries if is_foreign(entry)]
    files = [path for entry in foreign for paths in entry.tables.values() for path in paths]
    for path in files:
        path.write_bytes(b"x" * path.stat().st_size)
    return len(files)


def counts(catalog: Catalog, views: Iterable[str], where: str = "true") -> dict[str, int]:
    with Warehouse(catalog) as warehouse:
        return {
            view: warehouse.query(f"select count(*) as n from {view} where {where}").dicts()[0]["n"]
            for view in views
        }


def count(catalog: Catalog, view: str, where: str = "true") -> int:
    return counts(catalog, [view], where)[view]


def test_a_query_of_a_run_opens_only_its_files(lake: Lake) -> None:
    before = counts(lake.catalog("a"), VIEWS)
    kept = {entry.key for entry in lake.catalog("a").entries}
    assert destroy(lake.catalog(), lambda entry: entry.key not in kept)
    assert counts(lake.catalog("a"), VIEWS) == before
    assert {view for view in VIEWS if not before[view]} == {"run_audit_results", "unpaired_prompts"}
    with pytest.raises(DataContractError, match="No magic bytes"):
        count(lake.catalog(), "run_rollouts", "run = 'a'")


def test_a_query_of_a_stage_opens_only_its_files(lake: Lake) -> None:
    whole = lake.catalog()
    before = count(whole, "completions", "stage = 'train'")
    assert destroy(whole, lambda entry: entry.stage != "train")
    assert count(narrow(lake.catalog(), stage="train"), "completions") == before > 0
    with pytest.raises(DataContractError, match="No magic bytes"):
        count(lake.catalog(), "completions", "stage = 'train'")


def test_a_view_of_one_stage_opens_no_file_of_another(lake: Lake) -> None:
    whole = lake.catalog()
    views = ("groups", "waste", "reward_by_length")
    before = counts(whole, views)
    assert destroy(whole, lambda entry: entry.stage != "train")
    assert counts(whole, views) == before


def test_a_query_of_a_phase_opens_no_file_of_another(lake: Lake) -> None:
    whole = lake.catalog("a")
    views = ("run_rollouts", "run_steps", "run_bands", "run_eval_samples", "completions")
    before = counts(whole, views, "phase <= 1")
    others = {row.key for row in whole.run_artifacts if row.phase > 1}
    assert destroy(whole, lambda entry: entry.key in others)
    first = narrow(lake.catalog("a"), phase=1)
    assert counts(first, views) == before
    with pytest.raises(DataContractError, match="No magic bytes"):
        count(lake.catalog("a"), "run_rollouts", "phase = 1")


@pytest.mark.parametrize(("stage", "phase"), [("training", None), ("", 3)])
def test_a_stage_or_phase_that_is_not_there_is_refused(
    lake: Lake, stage: str, phase: int | None
) -> None:
    with pytest.raises(DataContractError, match="nothing here has") as raised:
        narrow(lake.catalog(), stage=stage, phase=phase)
    assert "train" in raised.value.hint or "0, 1, 2" in raised.value.hint


def test_reference_caches_of_other_runs_are_not_opened(tmp_path: Path) -> None:
    own = make_lake(run="a").write(tmp_path / "a")
    foreign = tmp_path / "b/ref_logprobs/other/part-00000000-0.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"x" * 100)
    trained = tuple(entry for entry in own.entries if entry.kind == "train")
    both = dataclasses.replace(own, entries=trained, ref_parts=(*own.ref_parts, foreign))
    with pytest.raises(DataContractError):
        count(both, "ref_logprobs")
    assert count(restrict_to_run(both, "a"), "ref_logprobs") == count(own, "ref_logprobs") > 0


def test_what_is_in_progress_alone_is_not_refused(lake: Lake) -> None:
    live = {"rollouts": (Path("unit-000000.parquet"),), "steps": (), "events": ()}
    first = dataclasses.replace(lake.catalog(), entries=(), run_artifacts=(), live_files=live)
    for stage, phase in (("train", None), ("", 3)):
        assert narrow(first, stage=stage, phase=phase).live_files == live
    with pytest.raises(DataContractError, match="nothing here has"):
        narrow(first, stage="training")
