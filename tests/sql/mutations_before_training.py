"""Changes of prompts, samples and bands that an audit must find."""

import numpy as np
from lake_fixture import LakeFixture
from lake_rows import logprob_fields
from mutation_registry import NAN, breaks, problems, rollouts, stopped

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
