-- name: assert_token_lists_match_lengths
-- kind: audit
-- severity: block
-- deep: true
-- grain: one completion whose lists are not as long as stated
-- depends_on: samples, eval_samples, rollouts
-- why: a log-prob belongs to a token; a list that is one short shifts every ratio and KL term
--     by a token
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     sample_index: 0-based sample
--     logprob_kind: sampling or old
--     num_completion_tokens: stated length
--     num_ids: completion ids
--     num_logprobs: log-probs
--     num_prompt_tokens: stated prompt length
--     num_prompt_ids: prompt ids
with

measured as (
    select
        'samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        num_completion_tokens,
        len(completion_token_ids) as num_ids,
        num_prompt_tokens,
        len(prompt_token_ids) as num_prompt_ids,
        len(sampling_logprobs) as num_logprobs
    from samples
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        num_completion_tokens,
        len(completion_token_ids) as num_ids,
        num_prompt_tokens,
        len(prompt_token_ids) as num_prompt_ids,
        len(sampling_logprobs) as num_logprobs
    from eval_samples
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        num_completion_tokens,
        len(completion_token_ids) as num_ids,
        num_prompt_tokens,
        len(prompt_token_ids) as num_prompt_ids,
        len(sampling_logprobs) as num_logprobs
    from rollouts
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'old' as logprob_kind,
        num_completion_tokens,
        len(completion_token_ids) as num_ids,
        num_prompt_tokens,
        len(prompt_token_ids) as num_prompt_ids,
        len(old_logprobs) as num_logprobs
    from rollouts
    where drop_reason is null or old_logprob_sum is not null
)

select
    table_name,
    artifact_key,
    prompt_id,
    sample_index,
    logprob_kind,
    num_completion_tokens,
    num_ids,
    num_logprobs,
    num_prompt_tokens,
    num_prompt_ids
from measured
where
    num_ids is distinct from num_completion_tokens
    or num_logprobs is distinct from num_completion_tokens
    or num_prompt_ids is distinct from num_prompt_tokens
order by table_name, artifact_key, prompt_id, sample_index, logprob_kind
