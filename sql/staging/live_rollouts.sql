-- name: live_rollouts
-- kind: staging
-- grain: one rollout of a training group of a phase in progress
-- depends_on: live_rollouts_files
-- columns:
--     phase: training phase, from 1
--     step: first optimiser step of the rollout batch
--     group: group of the rollout batch; quote it in SQL
--     sample_index: 0-based rollout of the group
--     prompt_id: hash of the normalised problem
--     variant_id: hash of the changed problem; null for the problem itself
--     suffix_id: instruction suffix, null for none
--     origin: where the completion came from
--     policy: id of the weights that sampled it
--     prompt_token_ids: rendered prompt, [P]
--     num_prompt_tokens: P, tokens
--     completion_token_ids: completion as sampled, [T], end-of-sequence included
--     num_completion_tokens: T, tokens
--     text: what was sampled, decoded
--     temperature: sampling temperature
--     max_completion_tokens: budget, tokens
--     finish_reason: stop, or length when the budget was used up
--     sampling_logprobs: log-probs from the sampler, [T], nats
--     sampling_logprob_sum: their sum, nats
--     sampling_logprob_min: their minimum, nats
--     sampling_logprob_max: their maximum, nats
--     sampling_logprob_nonfinite: how many are NaN or infinite
--     label: verdict: correct, wrong, unparseable, hedged, timeout, error, gold_unparseable
--     extracted: answer the verifier read, null when it read none
--     candidates: every answer it found in the completion
--     reason: why
--     reward_raw: 1 for correct, 0 for wrong, unparseable, hedged; null when undecided
--     verifier_version: version of the verifier
--     verifier: math, code, or the user's reward function
--     confidence: how sure the verifier is, in [0, 1]; null when it does not say
--     share_passed: share of a program's tests that passed; null without tests
--     grading_seconds: time that grading took, seconds
--     old_logprobs: from the trainer before the first update, [T], nats; null when not scored
--     old_logprob_sum: their sum, nats
--     old_logprob_min: their minimum, nats
--     old_logprob_max: their maximum, nats
--     old_logprob_nonfinite: how many are NaN or infinite
--     ref_row_key: row of the ref-logprob cache; empty without a reference
--     ref_logprob_sum: sum of the reference log-probs, nats
--     reward_graded: reward_raw with process credit; null when there is none
--     reward_base: verdict or graded reward on the configured scale; the parts add to it
--     reward_overlong: soft overlong punishment, in [-1, 0]
--     reward_repetition: repetition part
--     reward_format: format part
--     reward_language: language part
--     reward_length: bonus for unused budget of correct completions, >= 0
--     reward_kl: KL penalty when the KL term is in the reward, <= 0
--     reward: reward after shaping; null when undecided
--     advantage: group-relative advantage
--     drop_reason: why the rollout carries no loss; null for live rollouts
--     update_step: optimiser step that consumed the rollout; null when dropped
--     loss_token_weight: weight of each of its tokens in the loss; 0 when dropped
--     unit_file: unit file of the phase in progress
select
    phase,
    step,
    "group",
    sample_index,
    prompt_id,
    variant_id,
    suffix_id,
    origin,
    policy,
    prompt_token_ids,
    num_prompt_tokens,
    completion_token_ids,
    num_completion_tokens,
    text,
    temperature,
    max_completion_tokens,
    finish_reason,
    sampling_logprobs,
    sampling_logprob_sum,
    sampling_logprob_min,
    sampling_logprob_max,
    sampling_logprob_nonfinite,
    label,
    extracted,
    candidates,
    reason,
    reward_raw,
    verifier_version,
    verifier,
    confidence,
    share_passed,
    grading_seconds,
    old_logprobs,
    old_logprob_sum,
    old_logprob_min,
    old_logprob_max,
    old_logprob_nonfinite,
    ref_row_key,
    ref_logprob_sum,
    reward_graded,
    reward_base,
    reward_overlong,
    reward_repetition,
    reward_format,
    reward_language,
    reward_length,
    reward_kl,
    reward,
    advantage,
    drop_reason,
    update_step,
    loss_token_weight,
    filename as unit_file
from live_rollouts_files
