-- name: assert_trained_rollouts_in_ref_cache
-- kind: audit
-- severity: block
-- grain: one live rollout without valid reference log-probs in the cache of its reference
-- depends_on: rollouts, ref_logprobs, artifact_files
-- params:
--     kl_enabled: boolean = false; whether the run reads reference log-probs
-- why: every trained rollout was scored by the reference on exactly its tokens: one finite
--     log-prob a token, none above 0, with the sum that the rollout states
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     ref_row_key: row that the cache should have
--     num_completion_tokens: T, tokens
--     ref_logprob_sum: as the rollout states it, nats
with trained as (
    select distinct
        key as artifact_key,
        ref_fingerprint
    from artifact_files
    where not has_older_cache
)

select
    r.artifact_key,
    r.phase,
    r.step,
    r."group" as group_index,
    r.sample_index,
    r.ref_row_key,
    r.num_completion_tokens,
    r.ref_logprob_sum
from rollouts as r
inner join trained as t on r.artifact_key = t.artifact_key
where
    $kl_enabled::boolean
    and r.drop_reason is null
    and not exists (
        select 1
        from ref_logprobs as c
        where
            c.row_key = r.ref_row_key
            and t.ref_fingerprint in ('', c.fingerprint)
            and c.num_completion_tokens = r.num_completion_tokens
            and c.logprob_nonfinite = 0
            and c.logprob_max <= 1e-3
            and abs(c.logprob_sum - r.ref_logprob_sum) <= 1e-3 + 1e-5 * r.num_completion_tokens
    )
order by r.artifact_key, r.phase, r.step, group_index, r.sample_index
