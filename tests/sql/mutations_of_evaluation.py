"""Changes of evaluations and whole tables that an audit must find."""

from lake_fixture import LakeFixture
from mutation_registry import breaks, problems

from grpo_core.store.catalog import DamagedEntry

# evaluation and tables ----------------------------------------------------------------------------


@breaks("assert_evaluation_on_test_split")
def evaluated_on_train(lake: LakeFixture) -> None:
    for label in ("base", "1", "2"):
        rows = lake.rows(f"eval_samples/{label}", "eval_samples")
        rows[0]["prompt_id"] = problems(lake, "train")[0]["prompt_id"]


@breaks("assert_evaluation_conditions_equal")
def other_budget(lake: LakeFixture) -> None:
    for row in lake.rows("eval_samples/2", "eval_samples"):
        row["max_completion_tokens"] = 64


@breaks("assert_evaluation_conditions_equal")
def one_row_at_other_temperature(lake: LakeFixture) -> None:
    lake.rows("eval_samples/2", "eval_samples")[0]["temperature"] = 0.7


@breaks("assert_rows_unique")
def unit_read_twice(lake: LakeFixture) -> None:
    rows = lake.rows("train/2", "rollouts")
    rows.append(dict(rows[0]))


@breaks("assert_rows_unique")
def verdict_read_twice(lake: LakeFixture) -> None:
    rows = lake.rows("verdicts", "verdicts")
    rows.append(dict(rows[5]))


@breaks("assert_rows_unique")
def high_sample_twice(lake: LakeFixture) -> None:
    rows = lake.rows("samples", "samples")
    rows[5]["sample_index"] = rows[6]["sample_index"] = 64


@breaks("assert_rows_unique")
def event_twice(lake: LakeFixture) -> None:
    rows = lake.rows("train/2", "events")
    rows.append(dict(rows[0]))


@breaks("assert_no_damaged_artifacts")
def artifact_damaged(lake: LakeFixture) -> None:
    key = lake.key("samples")
    path = f"artifacts/prefilter/{key}/{lake.content('samples')[:12]}"
    lake.damaged.append(DamagedEntry("prefilter", key, path, "part is missing"))
