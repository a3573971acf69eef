-- name: assert_finish_reason_matches_length
-- kind: audit
-- severity: block
-- grain: one completion whose finish_reason contradicts its length
-- depends_on: samples, eval_samples, rollouts
-- why: truncation decides penalties and bands; length means exactly that the budget was used
--     up, stop may come at any length
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     sample_index: 0-based sample
--     finish_reason: as stored
--     num_completion_tokens: length, tokens
--     max_completion_tokens: budget, tokens
with

measured as (
    select
        'samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        finish_reason,
        num_completion_tokens,
        max_completion_tokens
    from samples
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        finish_reason,
        num_completion_tokens,
        max_completion_tokens
    from eval_samples
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        finish_reason,
        num_completion_tokens,
        max_completion_tokens
    from rollouts
)

select
    table_name,
    artifact_key,
    prompt_id,
    sample_index,
    finish_reason,
    num_completion_tokens,
    max_completion_tokens
from measured
where
    finish_reason not in ('stop', 'length')
    or (finish_reason = 'length' and num_completion_tokens <> max_completion_tokens)
order by table_name, artifact_key, prompt_id, sample_index
