-- name: assert_reward_is_sum_of_parts
-- kind: audit
-- severity: block
-- grain: one rollout whose shaped reward is not verdict plus parts
-- depends_on: rollouts
-- why: every part of a reward is stored; a total that is not their sum hides where the signal
--     comes from
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     reward: as stored
--     expected: reward_base plus the parts
with

summed as (
    select
        artifact_key,
        phase,
        step,
        "group" as group_index,
        sample_index,
        reward,
        reward_base
        + reward_overlong
        + reward_repetition
        + reward_format
        + reward_language
        + reward_length
        + reward_kl as expected
    from rollouts
    where reward_raw is not null
)

select
    artifact_key,
    phase,
    step,
    group_index,
    sample_index,
    reward,
    expected
from summed
where (isfinite(reward) and abs(reward - expected) <= 1e-6) is not true
order by artifact_key, phase, step, group_index, sample_index
