-- name: assert_advantages_recomputed
-- kind: audit
-- severity: block
-- grain: one live rollout whose advantage is not what its group's rewards give
-- depends_on: rollouts
-- params:
--     advantage_std: varchar = null; sample, population or none; null skips the audit, as for
--         options that the formula leaves out
--     advantage_eps: double = 1e-6; added to the deviation, reward units
--     advantage_clip: double = null; bound on |advantage|, null for none
--     advantage_tolerance: double = 1e-4; largest allowed difference, relative above 1
-- why: (reward - mean) / (std + eps), recomputed from the stored rewards; catches a wrong
--     deviation, nulls taken as 0, NaN and mixed-up groups in one query
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     reward: shaped reward
--     advantage: as stored
--     expected: recomputed
with

pooled as (
    select
        artifact_key,
        artifact_content,
        phase,
        step,
        "group" as group_index,
        sample_index,
        drop_reason,
        reward,
        advantage,
        avg(reward) over grouped as reward_mean,
        max(reward) over grouped - min(reward) over grouped as spread,
        case $advantage_std::varchar
            when 'sample' then stddev_samp(reward) over grouped
            when 'population' then stddev_pop(reward) over grouped
        end as deviation
    from rollouts
    where $advantage_std::varchar is not null
    window grouped as (partition by artifact_key, artifact_content, phase, step, "group")
),

recomputed as (
    select
        *,
        case
            when reward is null or spread <= 1e-9 then 0.0
            when $advantage_std::varchar = 'none' then reward - reward_mean
            else (reward - reward_mean) / nullif(deviation + $advantage_eps::double, 0.0)
        end as unclipped
    from pooled
),

bounded as (
    select
        *,
        greatest(
            least(unclipped, coalesce($advantage_clip::double, unclipped)),
            -coalesce($advantage_clip::double, -unclipped)
        ) as expected
    from recomputed
)

select
    artifact_key,
    phase,
    step,
    group_index,
    sample_index,
    reward,
    advantage,
    expected
from bounded
where
    drop_reason is null
    and (
        isfinite(advantage)
        and abs(advantage - expected)
        <= $advantage_tolerance::double * greatest(1.0, abs(expected))
    ) is not true
order by artifact_key, phase, step, group_index, sample_index
