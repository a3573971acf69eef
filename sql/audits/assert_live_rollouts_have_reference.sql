-- name: assert_live_rollouts_have_reference
-- kind: audit
-- severity: block
-- grain: one live rollout without reference log-probs
-- depends_on: rollouts
-- params:
--     kl_enabled: boolean = false; whether the run reads reference log-probs
-- why: with a KL term every live rollout needs a row of the reference cache with a finite sum
--     of log-probs
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     ref_row_key: as stored
--     ref_logprob_sum: as stored, nats
select
    artifact_key,
    phase,
    step,
    "group" as group_index,
    sample_index,
    ref_row_key,
    ref_logprob_sum
from rollouts
where
    $kl_enabled::boolean
    and drop_reason is null
    and (
        coalesce(ref_row_key, '') = ''
        or (ref_logprob_sum <= 1e-3 and isfinite(ref_logprob_sum)) is not true
    )
order by artifact_key, phase, step, group_index, sample_index
