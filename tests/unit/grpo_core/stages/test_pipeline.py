"""The whole pipeline on a small scale: reuse, resume, continue, fork, damage."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import GrpoError, StageInputError
from grpo_core.planning.fork import resolve_fork
from grpo_core.store.files import glob_stable
from grpo_core.store.lake import Lake
from grpo_core.store.ref_rows import RefRow
from grpo_core.types import StageName

pytestmark = pytest.mark.slow

Results = dict[str, Any]
Run = Callable[..., Results]
UNTIL_TRAIN = (
    StageName.INGEST,
    StageName.PREFILTER,
    StageName.VARIANTS,
    StageName.REF_LOGP,
    StageName.TRAIN,
)


def contents(results: Results) -> dict[str, str]:
    return {label: node.content for label, node in results.items()}


def computed(results: Results) -> set[str]:
    return {label for label, node in results.items() if node.state == "Computed"}


def test_a_first_run_computes_everything(finished: tuple[Path, Results]) -> None:
    assert computed(finished[1]) >= {"prompts", "samples", "bands/0", "train/1", "train/2", "audit"}
    assert sum(node.tokens for node in finished[1].values()) > 0


def test_a_second_run_reuses_everything_in_a_moved_lake(lake_copy: Path, run_mini: Run) -> None:
    again = run_mini(lake_copy)
    assert computed(again) == set()
    assert sum(node.tokens for node in again.values()) == 0


def test_another_run_shares_what_is_equal(
    lake_copy: Path, finished: tuple[Path, Results], run_mini: Run
) -> None:
    other = run_mini(lake_copy, "train.seed=5", name="other")
    assert computed(other) >= {"train/1", "train/2", "eval_samples/1"}
    assert not computed(other) & {"samples", "verdicts", "bands/0", "eval_samples/base"}
    assert other["train/1"].content != finished[1]["train/1"].content
    assert computed(run_mini(lake_copy)) == set()


def test_a_forced_stage_with_equal_rows_leaves_the_rest_reused(
    lake_copy: Path, run_mini: Run
) -> None:
    again = run_mini(lake_copy, force=(StageName.PREFILTER,))
    assert computed(again) == {"samples", "verdicts", "bands/0"}


def test_forced_training_gives_the_same_bits(
    lake_copy: Path, finished: tuple[Path, Results], run_mini: Run
) -> None:
    again = run_mini(lake_copy, force=(StageName.TRAIN,))
    assert computed(again) == {"train/1", "bands/1", "train/2", "bands/2"}
    assert contents(again) == contents(finished[1])


@pytest.mark.parametrize(
    "override", ["bands.hard_max=0.2", "train.group_size=2", "reward.timeout_seconds=6"]
)
def test_bands_group_size_and_verifier_sample_no_prompt_again(
    lake_copy: Path, run_mini: Run, override: str
) -> None:
    prefilter = run_mini(lake_copy, override, stages=(StageName.INGEST, StageName.PREFILTER))
    assert computed(prefilter)
    assert "samples" not in computed(prefilter)


def _run_until_killed(run: Run, root: Path) -> None:
    run(root, stages=UNTIL_TRAIN)


@pytest.mark.parametrize("unit", ["samples/unit-000001", "rollouts/unit-000001", "state-000004"])
def test_killed_at_any_point_the_next_run_ends_the_same(
    tmp_path: Path, finished: tuple[Path, Results], run_mini: Run, unit: str
) -> None:
    child = multiprocessing.get_context("fork").Process(
        target=_run_until_killed, args=(run_mini, tmp_path)
    )
    child.start()
    deadline = time.monotonic() + 120
    while not glob_stable(tmp_path, f"partial/*/*/{unit}*"):
        assert child.is_alive(), "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    again = run_mini(tmp_path, stages=UNTIL_TRAIN)
    expected = contents(finished[1])
    assert contents(again) == {label: expected[label] for label in again}
    assert not list(tmp_path.glob("partial/*/*"))


def test_raising_max_steps_continues_to_the_same_end(
    lake_copy: Path, tmp_path: Path, run_mini: Run
) -> None:
    longer = "train.phases.1.max_steps=8"
    continued = run_mini(lake_copy, longer, stages=(StageName.TRAIN,))
    scratch = run_mini(tmp_path / "scratch", longer, stages=UNTIL_TRAIN)
    assert continued["train/1"].state == "Reused"
    assert continued["train/2"].content == scratch["train/2"].content
    assert 0 < continued["train/2"].tokens < scratch["train/2"].tokens


def test_a_run_forks_from_another_runs_state(lake_copy: Path, run_mini: Run) -> None:
    fork = resolve_fork(Lake(lake_copy), "mini:1")
    forked = run_mini(
        lake_copy,
        "train.learning_rate=1e-4",
        name="forked",
        fork=fork,
        stages=UNTIL_TRAIN,
    )
    assert {label for label in forked if label.startswith("train/")} == {"train/2"}
    steps = Lake(lake_copy).store.generation(
        "train", forked["train/2"].key, forked["train/2"].content
    )
    assert steps.table("steps").column("step").to_pylist() == [5, 6, 7, 8]


def test_a_run_forks_from_the_middle_of_a_phase(lake_copy: Path, run_mini: Run) -> None:
    fork = resolve_fork(Lake(lake_copy), "mini:2:6")
    forked = run_mini(lake_copy, name="forked", fork=fork, stages=UNTIL_TRAIN)
    artifact = Lake(lake_copy).store.generation(
        "train", forked["train/2"].key, forked["train/2"].content
    )
    assert artifact.table("steps").column("step").to_pylist() == [7, 8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mini", "not of the form"),
        ("nobody:1", "no run called 'nobody'"),
        ("mini:9", "no finished phase 9"),
        ("mini:2:5", "steps kept: 6, 8"),
    ],
)
def test_a_wrong_fork_point_says_what_there_is(
    finished: tuple[Path, Results], text: str, message: str
) -> None:
    with pytest.raises(GrpoError, match=message):
        resolve_fork(Lake(finished[0]), text)


def test_a_deleted_file_is_made_again_and_only_that(lake_copy: Path, run_mini: Run) -> None:
    part = next((lake_copy / "artifacts" / "prefilter").glob("*/*/tables/verdicts/*.parquet"))
    part.unlink()
    assert computed(run_mini(lake_copy)) == {"verdicts"}


def test_without_its_inputs_a_stage_names_the_one_to_run(tmp_path: Path, run_mini: Run) -> None:
    with pytest.raises(StageInputError, match="run stage ingest first"):
        run_mini(tmp_path, stages=(StageName.TRAIN,))
    run_mini(tmp_path, stages=(StageName.INGEST,))
    with pytest.raises(StageInputError, match="run stage prefilter first"):
        run_mini(tmp_path, stages=(StageName.TRAIN,))


def test_training_reads_the_reference_from_the_cache(
    finished: tuple[Path, Results],
) -> None:
    lake = Lake(finished[0])
    node = finished[1]["train/1"]
    artifact = lake.store.generation("train", node.key, node.content)
    rates = artifact.table("steps").column("ref_cache_hit_rate").to_pylist()
    assert rates[0] == 1.0
    rollouts = artifact.table("rollouts")
    first = rollouts.slice(0, 1).to_pylist()[0]
    row = RefRow(
        tuple(first["prompt_token_ids"]),
        tuple(first["completion_token_ids"]),
        first["temperature"],
    )
    assert row.key == first["ref_row_key"]
    assert first["origin"] == "prefilter"


def test_at_step_zero_the_old_logprobs_are_the_references(
    finished: tuple[Path, Results],
) -> None:
    lake = Lake(finished[0])
    node = finished[1]["train/1"]
    rollouts = lake.store.generation("train", node.key, node.content).table("rollouts")
    for row in rollouts.to_pylist():
        if row["origin"] == "prefilter":
            assert row["old_logprob_sum"] == row["ref_logprob_sum"]


def test_checkpoints_load_with_transformers(finished: tuple[Path, Results]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    lake = Lake(finished[0])
    node = finished[1]["train/2"]
    directory = lake.store.generation("train", node.key, node.content).directory("checkpoint")
    assert AutoModelForCausalLM.from_pretrained(directory).num_parameters() > 0
    assert AutoTokenizer.from_pretrained(directory).eos_token_id is not None


def test_dynamic_sampling_fills_batches_and_says_so(lake_copy: Path, run_mini: Run) -> None:
    results = run_mini(lake_copy, "filter.refill_rounds=3", name="refilled")
    assert "samples" not in computed(results)
    lake = Lake(lake_copy)
    train = results["train/2"]
    artifact = lake.store.generation(StageName.TRAIN, train.key, train.content)
    events = [e for e in artifact.table("events").to_pylist() if e["kind"] == "refill"]
    assert events
    assert all(event["after"] >= event["before"] for event in events)
    rollouts = artifact.table("rollouts", ["step", "group", "prompt_id"]).to_pylist()
    step = events[0]["step"]
    groups = {row["group"]: row["prompt_id"] for row in rollouts if row["step"] == step}
    assert sorted(groups) == list(range(len(groups)))
    assert len(groups) > 8
    assert len(set(groups.values())) == len(groups)
