-- name: assert_completions_within_budget
-- kind: audit
-- severity: block
-- grain: one completion that is empty or longer than its budget
-- depends_on: samples, eval_samples, rollouts
-- why: a completion over the budget was not sampled under this phase; an empty one has no end-
--     of-sequence and no loss
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     sample_index: 0-based sample
--     num_completion_tokens: length, tokens
--     max_completion_tokens: budget, tokens
with

measured as (
    select
        'samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        num_completion_tokens,
        max_completion_tokens
    from samples
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        num_completion_tokens,
        max_completion_tokens
    from eval_samples
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        num_completion_tokens,
        max_completion_tokens
    from rollouts
)

select
    table_name,
    artifact_key,
    prompt_id,
    sample_index,
    num_completion_tokens,
    max_completion_tokens
from measured
where (num_completion_tokens between 1 and max_completion_tokens) is not true
order by table_name, artifact_key, prompt_id, sample_index
