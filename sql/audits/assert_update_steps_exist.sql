-- name: assert_update_steps_exist
-- kind: audit
-- severity: block
-- grain: one rollout consumed by a step that does not exist or came before it
-- depends_on: rollouts, steps
-- why: a rollout is used by an optimiser step of its own phase, at or after the step it was
--     drawn for
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     update_step: as stored
--     num_rollouts: rollouts
with

used as (
    select
        artifact_key,
        artifact_content,
        phase,
        step,
        update_step,
        count(*) as num_rollouts
    from rollouts
    where update_step is not null
    group by artifact_key, artifact_content, phase, step, update_step
)

select
    u.artifact_key,
    u.phase,
    u.step,
    u.update_step,
    u.num_rollouts
from used as u
left join steps as s
    on
        u.artifact_key = s.artifact_key
        and u.artifact_content = s.artifact_content
        and u.phase = s.phase
        and u.update_step = s.step
where s.step is null or u.update_step < u.step
order by u.artifact_key, u.phase, u.step, u.update_step
