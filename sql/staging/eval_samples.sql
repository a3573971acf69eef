-- name: eval_samples
-- kind: staging
-- grain: one evaluation sample of one checkpoint
-- depends_on: eval_samples_files, artifact_files
-- columns:
--     checkpoint: id of the evaluated weights
--     prompt_id: hash of the normalised problem
--     sample_index: 0-based sample of the prompt
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
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.checkpoint,
    f.prompt_id,
    f.sample_index,
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
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from eval_samples_files as f
inner join artifact_files as a on f.filename = a.file
