-- name: assert_logprob_scalars_match_lists
-- kind: audit
-- severity: block
-- deep: true
-- grain: one completion whose stated sum, minimum or maximum is not that of its list
-- depends_on: samples, eval_samples, rollouts
-- why: routine audits read the scalars alone; here they are recomputed from the lists
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     sample_index: 0-based sample
--     logprob_kind: sampling or old
--     stated_sum: stated sum, nats
--     list_sum: sum of the list
--     stated_min: stated minimum
--     list_min: minimum of the list
--     stated_max: stated maximum
--     list_max: maximum of the list
with

measured as (
    select
        'samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        sampling_logprob_sum as stated_sum,
        list_sum(sampling_logprobs) as list_sum,
        sampling_logprob_min as stated_min,
        list_min(sampling_logprobs) as list_min,
        sampling_logprob_max as stated_max,
        list_max(sampling_logprobs) as list_max
    from samples
    where sampling_logprob_nonfinite = 0
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        sampling_logprob_sum as stated_sum,
        list_sum(sampling_logprobs) as list_sum,
        sampling_logprob_min as stated_min,
        list_min(sampling_logprobs) as list_min,
        sampling_logprob_max as stated_max,
        list_max(sampling_logprobs) as list_max
    from eval_samples
    where sampling_logprob_nonfinite = 0
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        sampling_logprob_sum as stated_sum,
        list_sum(sampling_logprobs) as list_sum,
        sampling_logprob_min as stated_min,
        list_min(sampling_logprobs) as list_min,
        sampling_logprob_max as stated_max,
        list_max(sampling_logprobs) as list_max
    from rollouts
    where sampling_logprob_nonfinite = 0
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'old' as logprob_kind,
        old_logprob_sum as stated_sum,
        list_sum(old_logprobs) as list_sum,
        old_logprob_min as stated_min,
        list_min(old_logprobs) as list_min,
        old_logprob_max as stated_max,
        list_max(old_logprobs) as list_max
    from rollouts
    where old_logprob_nonfinite = 0
)

select
    table_name,
    artifact_key,
    prompt_id,
    sample_index,
    logprob_kind,
    stated_sum,
    list_sum,
    stated_min,
    list_min,
    stated_max,
    list_max
from measured
where
    (isfinite(stated_sum) and abs(stated_sum - list_sum) <= 1e-4 * (1.0 + abs(list_sum)))
    is not true
    or stated_min is distinct from list_min
    or stated_max is distinct from list_max
order by table_name, artifact_key, prompt_id, sample_index, logprob_kind
