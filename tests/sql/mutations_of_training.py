"""Changes of rollouts, steps and the reference cache that an audit must find."""

from lake_fixture import LakeFixture
from lake_rows import Row
from mutation_registry import NAN, breaks, group_of, problems, rollouts

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
