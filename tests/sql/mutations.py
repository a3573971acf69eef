"""For each audit, changes of the small lake that the audit must find."""

from collections.abc import Callable

import numpy as np
from lake_fixture import LakeFixture, Row, logprob_fields

from grpo_core.store.catalog import DamagedEntry

NAN = float("nan")
Mutation = Callable[[LakeFixture], None]
MUTATIONS: dict[str, dict[str, Mutation]] = {}


def breaks(name: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation that makes the audit `name` fire."""

    def register(mutation: Mutation) -> Mutation:
        MUTATIONS.setdefault(name, {})[mutation.__name__] = mutation
        return mutation

    return register


def problems(lake: LakeFixture, split: str) -> list[Row]:
    rows = lake.rows("prompts", "prompts")
    return [row for row in rows if row["split"] == split and not row["duplicate_of"]]


def rollouts(lake: LakeFixture, *, live: bool = True) -> list[Row]:
    rows = lake.rows("train/1", "rollouts")
    return [row for row in rows if (row["drop_reason"] is None) == live]


def group_of(lake: LakeFixture, row: Row) -> list[Row]:
    place = (row["step"], row["group"])
    rows = lake.rows("train/1", "rollouts")
    return [other for other in rows if (other["step"], other["group"]) == place]


def stopped(rows: list[Row]) -> Row:
    return next(row for row in rows if row["finish_reason"] == "stop")


# prompts ------------------------------------------------------------------------------------------


@breaks("assert_prompt_ids_unique")
def duplicate_in_use(lake: LakeFixture) -> None:
    lake.rows("prompts", "prompts")[-2]["duplicate_of"] = None


@breaks("assert_prompts_in_use_complete")
def gold_missing(lake: LakeFixture) -> None:
    problems(lake, "train")[0]["gold"] = " "


@breaks("assert_prompts_in_use_complete")
def reason_missing(lake: LakeFixture) -> None:
    lake.rows("prompts", "prompts")[-1]["quarantine_reason"] = None


@breaks("assert_quarantine_has_reason")
def reason_empty(lake: LakeFixture) -> None:
    lake.rows("prompts", "prompts")[-1]["quarantine_reason"] = ""


@breaks("assert_duplicates_point_to_problems")
def duplicate_of_nothing(lake: LakeFixture) -> None:
    lake.rows("prompts", "prompts")[-2]["duplicate_of"] = "nowhere"


@breaks("assert_splits_disjoint")
def train_text_in_test(lake: LakeFixture) -> None:
    text = problems(lake, "train")[0]["text"]
    problems(lake, "test")[0]["text"] = text.upper().replace(" ", "  ")


@breaks("assert_variants_not_in_evaluation")
def variant_is_test_problem(lake: LakeFixture) -> None:
    lake.rows("variants", "variants")[0]["text"] = problems(lake, "validation")[0]["text"] + " "


@breaks("assert_variants_have_train_parents")
def variant_of_test_problem(lake: LakeFixture) -> None:
    lake.rows("variants", "variants")[0]["prompt_id"] = problems(lake, "test")[0]["prompt_id"]


# samples ------------------------------------------------------------------------------------------


@breaks("assert_samples_per_prompt_equal")
def sample_lost(lake: LakeFixture) -> None:
    lake.rows("samples", "samples").pop()


@breaks("assert_eval_samples_per_prompt_equal")
def eval_sample_lost(lake: LakeFixture) -> None:
    lake.rows("eval_samples/1", "eval_samples").pop()


@breaks("assert_sample_index_dense")
def sample_index_gap(lake: LakeFixture) -> None:
    lake.rows("samples", "samples")[0]["sample_index"] = 99


@breaks("assert_sample_index_dense")
def rollout_index_twice(lake: LakeFixture) -> None:
    rollouts(lake)[0]["sample_index"] = rollouts(lake)[1]["sample_index"]


@breaks("assert_samples_have_one_verdict")
def verdict_lost(lake: LakeFixture) -> None:
    lake.rows("verdicts", "verdicts").pop(3)


@breaks("assert_samples_have_one_verdict")
def verdict_of_other_sample(lake: LakeFixture) -> None:
    lake.rows("verdicts", "verdicts")[3]["sample_index"] = 90


@breaks("assert_samples_have_one_verdict")
def verdict_twice_instead_of_the_next(lake: LakeFixture) -> None:
    rows = lake.rows("verdicts", "verdicts")
    rows[4]["sample_index"] = rows[3]["sample_index"]


@breaks("assert_eval_samples_have_one_verdict")
def verdict_of_other_checkpoint(lake: LakeFixture) -> None:
    lake.rows("eval_verdicts/2", "eval_verdicts")[0]["checkpoint"] = "another"


@breaks("assert_logprobs_valid")
def logprob_not_finite(lake: LakeFixture) -> None:
    row = lake.rows("samples", "samples")[0]
    row |= logprob_fields("sampling", np.array([-0.1, NAN, -0.3]))


@breaks("assert_logprobs_valid")
def logprob_max_is_nan(lake: LakeFixture) -> None:
    lake.rows("samples", "samples")[0]["sampling_logprob_max"] = NAN


@breaks("assert_logprobs_valid")
def logprob_positive(lake: LakeFixture) -> None:
    rollouts(lake)[0]["old_logprob_max"] = 0.01


@breaks("assert_token_lists_match_lengths")
def list_one_short(lake: LakeFixture) -> None:
    rollouts(lake)[0]["old_logprobs"].pop()


@breaks("assert_token_lists_match_lengths")
def prompt_length_wrong(lake: LakeFixture) -> None:
    lake.rows("eval_samples/base", "eval_samples")[0]["num_prompt_tokens"] = 4


@breaks("assert_logprob_scalars_match_lists")
def sum_of_another_row(lake: LakeFixture) -> None:
    lake.rows("samples", "samples")[0]["sampling_logprob_sum"] -= 0.1


@breaks("assert_completions_within_budget")
def over_budget(lake: LakeFixture) -> None:
    lake.rows("samples", "samples")[0]["num_completion_tokens"] = 25


@breaks("assert_completions_within_budget")
def empty_completion(lake: LakeFixture) -> None:
    rollouts(lake)[0]["num_completion_tokens"] = 0


@breaks("assert_finish_reason_matches_length")
def truncated_before_budget(lake: LakeFixture) -> None:
    stopped(rollouts(lake))["finish_reason"] = "length"
    rollouts(lake)[0]["num_completion_tokens"] -= 1


@breaks("assert_finish_reason_matches_length")
def unknown_finish_reason(lake: LakeFixture) -> None:
    lake.rows("samples", "samples")[0]["finish_reason"] = "abort"


@breaks("assert_reward_raw_matches_label")
def timeout_counts_as_wrong(lake: LakeFixture) -> None:
    lake.rows("verdicts", "verdicts")[0] |= {"label": "timeout", "reward_raw": 0.0}


@breaks("assert_reward_raw_matches_label")
def correct_without_reward(lake: LakeFixture) -> None:
    lake.rows("eval_verdicts/1", "eval_verdicts")[0] |= {"label": "correct", "reward_raw": None}


@breaks("assert_reward_raw_matches_label")
def unknown_label(lake: LakeFixture) -> None:
    rollouts(lake)[0]["label"] = "fine"


# bands --------------------------------------------------------------------------------------------


@breaks("assert_bands_match_verdicts")
def band_of_other_verdicts(lake: LakeFixture) -> None:
    lake.rows("bands/0", "bands")[0]["num_correct"] += 1


@breaks("assert_bands_match_verdicts")
def prompt_without_band(lake: LakeFixture) -> None:
    lake.rows("bands/0", "bands").pop()


@breaks("assert_pass_rate_matches_counts")
def nulls_in_denominator(lake: LakeFixture) -> None:
    row = next(r for r in lake.rows("bands/0", "bands") if r["num_null"] and r["num_correct"])
    row["pass_rate"] = row["num_correct"] / row["n"]


@breaks("assert_pass_rate_matches_counts")
def pass_rate_nan(lake: LakeFixture) -> None:
    lake.rows("bands/0", "bands")[0]["pass_rate"] = NAN


@breaks("assert_band_matches_pass_rate")
def wrong_side_of_edge(lake: LakeFixture) -> None:
    row = next(r for r in lake.rows("bands/1", "bands") if r["band"] == "easy")
    row["band"] = "medium"


@breaks("assert_band_matches_pass_rate")
def unknown_without_truncation(lake: LakeFixture) -> None:
    row = next(r for r in lake.rows("bands/0", "bands") if r["band"] == "hard")
    row["band"] = "unknown"


# rollouts -----------------------------------------------------------------------------------------


@breaks("assert_rollouts_from_train_split")
def rollout_of_test_problem(lake: LakeFixture) -> None:
    for row in group_of(lake, rollouts(lake)[0]):
        row["prompt_id"] = problems(lake, "test")[0]["prompt_id"]


@breaks("assert_samples_from_train_split")
def sample_of_validation_problem(lake: LakeFixture) -> None:
    rows = lake.rows("samples", "samples")
    rows[0]["prompt_id"] = problems(lake, "validation")[0]["prompt_id"]


@breaks("assert_group_sizes")
def short_group(lake: LakeFixture) -> None:
    lake.rows("train/1", "rollouts").pop()


@breaks("assert_groups_hold_one_prompt")
def group_of_two_variants(lake: LakeFixture) -> None:
    rollouts(lake)[0]["variant_id"] = "other"


@breaks("assert_advantages_sum_to_zero")
def advantage_off(lake: LakeFixture) -> None:
    rollouts(lake)[0]["advantage"] += 0.01


@breaks("assert_advantages_sum_to_zero")
def advantage_nan(lake: LakeFixture) -> None:
    rollouts(lake)[0]["advantage"] = NAN


@breaks("assert_advantages_recomputed")
def population_deviation(lake: LakeFixture) -> None:
    for row in rollouts(lake):
        row["advantage"] *= (4 / 3) ** 0.5


@breaks("assert_advantages_recomputed")
def null_taken_as_zero(lake: LakeFixture) -> None:
    first = rollouts(lake)[0]
    wrong = next(row for row in group_of(lake, first) if row["reward_raw"] == 0.0)
    wrong |= {"reward_raw": None, "reward": None, "drop_reason": "null_reward"}


@breaks("assert_undecided_rewards_dropped")
def timeout_still_teaches(lake: LakeFixture) -> None:
    rollouts(lake)[0] |= {"reward_raw": None}


@breaks("assert_reward_is_sum_of_parts")
def hidden_penalty(lake: LakeFixture) -> None:
    rollouts(lake)[0]["reward"] -= 0.1


@breaks("assert_reward_parts_within_bounds")
def penalty_below_bound(lake: LakeFixture) -> None:
    rollouts(lake)[0]["reward_overlong"] = -1.5


@breaks("assert_reward_parts_within_bounds")
def part_is_nan(lake: LakeFixture) -> None:
    rollouts(lake)[0]["reward_format"] = NAN


@breaks("assert_dropped_rollouts_carry_no_loss")
def dropped_with_weight(lake: LakeFixture) -> None:
    rollouts(lake, live=False)[0]["loss_token_weight"] = 0.001


@breaks("assert_dropped_rollouts_carry_no_loss")
def live_without_update(lake: LakeFixture) -> None:
    rollouts(lake)[0]["update_step"] = None


@breaks("assert_dropped_rollouts_carry_no_loss")
def weight_nan(lake: LakeFixture) -> None:
    rollouts(lake)[0]["loss_token_weight"] = NAN


@breaks("assert_flat_groups_dropped")
def flat_group_kept(lake: LakeFixture) -> None:
    for row in group_of(lake, rollouts(lake)[0]):
        row |= {"label": "correct", "reward_raw": 1.0}


@breaks("assert_live_rollouts_have_reference")
def reference_missing(lake: LakeFixture) -> None:
    rollouts(lake)[0]["ref_row_key"] = ""


@breaks("assert_live_rollouts_have_reference")
def reference_nan(lake: LakeFixture) -> None:
    rollouts(lake)[0]["ref_logprob_sum"] = NAN


def cached(lake: LakeFixture) -> Row:
    key = rollouts(lake)[0]["ref_row_key"]
    return next(row for row in lake.ref_rows if row["row_key"] == key)


@breaks("assert_trained_rollouts_in_ref_cache")
def cache_row_missing(lake: LakeFixture) -> None:
    lake.ref_rows.remove(cached(lake))


@breaks("assert_trained_rollouts_in_ref_cache")
def cache_of_another_reference(lake: LakeFixture) -> None:
    lake.ref_fingerprint = "another"


@breaks("assert_ref_cache_version_is_read")
def cache_of_an_older_version(lake: LakeFixture) -> None:
    lake.ref_fingerprint, lake.has_older_cache = "another", True


@breaks("assert_trained_rollouts_in_ref_cache")
def cache_row_shorter(lake: LakeFixture) -> None:
    cached(lake)["num_completion_tokens"] -= 1


@breaks("assert_trained_rollouts_in_ref_cache")
def cache_row_not_finite(lake: LakeFixture) -> None:
    cached(lake)["logprob_nonfinite"] = 1


@breaks("assert_trained_rollouts_in_ref_cache")
def cache_row_above_zero(lake: LakeFixture) -> None:
    cached(lake)["logprob_max"] = 0.5


@breaks("assert_trained_rollouts_in_ref_cache")
def cache_row_of_another_reference(lake: LakeFixture) -> None:
    cached(lake)["logprob_sum"] -= 1.0


@breaks("assert_ref_scalars_match_lists")
def cache_list_shorter(lake: LakeFixture) -> None:
    cached(lake)["logprobs"] = cached(lake)["logprobs"][1:]


@breaks("assert_ref_scalars_match_lists")
def cache_list_with_nan(lake: LakeFixture) -> None:
    cached(lake)["logprobs"] = [NAN, *cached(lake)["logprobs"][1:]]


@breaks("assert_ref_scalars_match_lists")
def cache_list_with_other_values(lake: LakeFixture) -> None:
    cached(lake)["logprobs"] = [value - 0.5 for value in cached(lake)["logprobs"]]


@breaks("assert_ref_receipts_match_samples")
def receipt_of_other_tokens(lake: LakeFixture) -> None:
    lake.rows("ref_logp", "ref_receipts")[0]["num_completion_tokens"] += 1


@breaks("assert_old_logprobs_near_sampling")
def trainer_at_other_temperature(lake: LakeFixture) -> None:
    for row in lake.rows("train/1", "rollouts"):
        row["old_logprob_sum"] *= 1.3


# steps --------------------------------------------------------------------------------------------


@breaks("assert_update_steps_exist")
def update_without_step(lake: LakeFixture) -> None:
    rollouts(lake)[0]["update_step"] = 77


@breaks("assert_update_steps_exist")
def update_before_rollout(lake: LakeFixture) -> None:
    rows = [row for row in rollouts(lake) if row["step"] > 1]
    rows[0]["update_step"] = 1


@breaks("assert_steps_dense")
def step_lost(lake: LakeFixture) -> None:
    lake.rows("train/1", "steps").pop(1)


@breaks("assert_steps_dense")
def phase_goes_back(lake: LakeFixture) -> None:
    lake.rows("train/2", "steps")[1]["phase"] = 1


@breaks("assert_steps_finite")
def loss_nan(lake: LakeFixture) -> None:
    lake.rows("train/2", "steps")[0]["loss"] = NAN


@breaks("assert_steps_finite")
def gradient_infinite(lake: LakeFixture) -> None:
    lake.rows("train/2", "steps")[0]["grad_norm"] = float("inf")


@breaks("assert_step_rates_within_bounds")
def rate_in_percent(lake: LakeFixture) -> None:
    lake.rows("train/1", "steps")[0]["clip_fraction"] = 6.0


@breaks("assert_step_rates_within_bounds")
def rate_nan(lake: LakeFixture) -> None:
    lake.rows("train/1", "steps")[0]["truncation_rate"] = NAN


@breaks("assert_step_rates_within_bounds")
def figure_missing_on_a_step_that_was_taken(lake: LakeFixture) -> None:
    lake.rows("train/1", "steps")[0]["grad_norm"] = None


@breaks("assert_steps_match_rollouts")
def live_rollouts_miscounted(lake: LakeFixture) -> None:
    lake.rows("train/1", "steps")[0]["num_live_rollouts"] += 1


@breaks("assert_events_explained")
def event_without_reason(lake: LakeFixture) -> None:
    lake.rows("train/1", "events")[0]["reason"] = " "


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
