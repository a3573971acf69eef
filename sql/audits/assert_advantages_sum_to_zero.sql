-- name: assert_advantages_sum_to_zero
-- kind: audit
-- severity: block
-- grain: one live group whose advantages do not sum to 0
-- depends_on: rollouts
-- params:
--     advantages_centred: boolean = true; false for options that shift the baseline (leave-
--         one-out, running mean, tolerance band)
--     advantage_clip: double = null; bound on |advantage|; a group that reaches it is left out
--     advantage_tolerance: double = 1e-4; largest allowed |sum| of a group, in advantages
-- why: group-relative advantages are centred; a sum off 0 means a wrong baseline, a mixed group
--     or NaN
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     advantage_sum: sum of the advantages
--     num_rollouts: rows
select
    artifact_key,
    phase,
    step,
    "group" as group_index,
    sum(advantage) as advantage_sum,
    count(*) as num_rollouts
from rollouts
where $advantages_centred::boolean
group by artifact_key, artifact_content, phase, step, "group"
having
    count(*) filter (where drop_reason is null) > 0
    and coalesce(max(abs(advantage)) < $advantage_clip::double, true)
    and (isfinite(sum(advantage)) and abs(sum(advantage)) <= $advantage_tolerance::double)
    is not true
order by artifact_key, phase, step, group_index
