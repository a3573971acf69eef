-- name: assert_undecided_rewards_dropped
-- kind: audit
-- severity: block
-- grain: one rollout without a reward that still teaches
-- depends_on: rollouts
-- why: null is not 0: an undecided rollout leaves the baseline, has no shaped reward and
--     carries no loss
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     label: verdict
--     reward: shaped reward
--     advantage: advantage
--     drop_reason: as stored
select
    artifact_key,
    phase,
    step,
    "group" as group_index,
    sample_index,
    label,
    reward,
    advantage,
    drop_reason
from rollouts
where
    reward_raw is null
    and (
        reward is not null
        or drop_reason is null
        or (isfinite(advantage) and advantage = 0.0) is not true
    )
order by artifact_key, phase, step, group_index, sample_index
