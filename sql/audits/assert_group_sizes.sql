-- name: assert_group_sizes
-- kind: audit
-- severity: block
-- grain: one group of another size than planned
-- depends_on: rollouts
-- params:
--     group_size: bigint = null; planned rollouts a group, null for the most frequent number
-- why: group size comes from counting rows; a short, merged or interleaved group has a wrong
--     baseline
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     num_rollouts: rows
--     planned: planned size, or the most frequent one
with

counted as (
    select
        artifact_key,
        artifact_content,
        phase,
        step,
        "group" as group_index,
        count(*) as num_rollouts
    from rollouts
    group by artifact_key, artifact_content, phase, step, "group"
),

expected as (
    select
        artifact_key,
        artifact_content,
        coalesce($group_size::bigint, mode(num_rollouts)) as planned
    from counted
    group by artifact_key, artifact_content
)

select
    c.artifact_key,
    c.phase,
    c.step,
    c.group_index,
    c.num_rollouts,
    e.planned
from counted as c
inner join expected as e
    on c.artifact_key = e.artifact_key and c.artifact_content = e.artifact_content
where c.num_rollouts <> e.planned or c.num_rollouts < 2
order by c.artifact_key, c.phase, c.step, c.group_index
