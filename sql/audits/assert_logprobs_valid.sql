-- name: assert_logprobs_valid
-- kind: audit
-- severity: block
-- grain: one completion with impossible log-probs
-- depends_on: samples, eval_samples, rollouts
-- params:
--     logprob_tolerance: double = 1e-6; how far above 0 rounding may lift a log-prob, nats
-- why: a log-prob above 0, NaN or infinite comes from a wrong kernel, temperature or mask and
--     poisons ratio and KL; NaN passes plain comparisons, so it is counted apart
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     sample_index: 0-based sample
--     logprob_kind: sampling or old
--     nonfinite: NaN or infinite values
--     highest: highest log-prob, nats
--     total: their sum, nats
with

scored as (
    select
        'samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        sampling_logprob_nonfinite as nonfinite,
        sampling_logprob_max as highest,
        sampling_logprob_sum as total
    from samples
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        sampling_logprob_nonfinite as nonfinite,
        sampling_logprob_max as highest,
        sampling_logprob_sum as total
    from eval_samples
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'sampling' as logprob_kind,
        sampling_logprob_nonfinite as nonfinite,
        sampling_logprob_max as highest,
        sampling_logprob_sum as total
    from rollouts
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        'old' as logprob_kind,
        old_logprob_nonfinite as nonfinite,
        old_logprob_max as highest,
        old_logprob_sum as total
    from rollouts
    where drop_reason is null or old_logprob_sum is not null
)

select
    table_name,
    artifact_key,
    prompt_id,
    sample_index,
    logprob_kind,
    nonfinite,
    highest,
    total
from scored
where
    (nonfinite = 0) is not true
    or (isfinite(highest) and highest <= $logprob_tolerance::double) is not true
    or isfinite(total) is not true
order by table_name, artifact_key, prompt_id, sample_index, logprob_kind
