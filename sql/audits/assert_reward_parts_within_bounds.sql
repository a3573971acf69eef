-- name: assert_reward_parts_within_bounds
-- kind: audit
-- severity: block
-- grain: one rollout with a shaping part out of its bounds
-- depends_on: rollouts
-- why: penalties lie in [-1, 0], credits in [0, 1]; beyond that shaping outweighs the verdict
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     reward_overlong: part
--     reward_repetition: part
--     reward_format: part
--     reward_language: part
--     reward_length: part
select
    artifact_key,
    phase,
    step,
    "group" as group_index,
    sample_index,
    reward_overlong,
    reward_repetition,
    reward_format,
    reward_language,
    reward_length
from rollouts
where
    (isfinite(reward_overlong) and reward_overlong between -1.0 and 0.0) is not true
    or (isfinite(reward_repetition) and reward_repetition between -1.0 and 0.0) is not true
    or (isfinite(reward_format) and reward_format between 0.0 and 1.0) is not true
    or (isfinite(reward_language) and reward_language between -1.0 and 0.0) is not true
    or (isfinite(reward_length) and reward_length between 0.0 and 1.0) is not true
order by artifact_key, phase, step, group_index, sample_index
