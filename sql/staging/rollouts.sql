-- name: rollouts
-- kind: staging
-- grain: one rollout of a training group
-- depends_on: rollouts_files, artifact_files
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
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.phase,
    f.step,
    f."group",
    f.sample_index,
    f.prompt_id,
    f.variant_id,
    f.suffix_id,
    f.origin,
    f.policy,
    f.prompt_token_ids,
    f.num_prompt_tokens,
    f.completion_token_ids,
    f.num_completion_tokens,
    f.text,
    f.temperature,
    f.max_completion_tokens,
    f.finish_reason,
    f.sampling_logprobs,
    f.sampling_logprob_sum,
    f.sampling_logprob_min,
    f.sampling_logprob_max,
    f.sampling_logprob_nonfinite,
    f.label,
    f.extracted,
    f.candidates,
    f.reason,
    f.reward_raw,
    f.verifier_version,
    f.verifier,
    f.confidence,
    f.share_passed,
    f.grading_seconds,
    f.old_logprobs,
    f.old_logprob_sum,
    f.old_logprob_min,
    f.old_logprob_max,
    f.old_logprob_nonfinite,
    f.ref_row_key,
    f.ref_logprob_sum,
    f.reward_graded,
    f.reward_base,
    f.reward_overlong,
    f.reward_repetition,
    f.reward_format,
    f.reward_language,
    f.reward_length,
    f.reward_kl,
    f.reward,
    f.advantage,
    f.drop_reason,
    f.update_step,
    f.loss_token_weight,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from rollouts_files as f
inner join artifact_files as a on f.filename = a.file
