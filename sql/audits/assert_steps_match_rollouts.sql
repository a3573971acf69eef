-- name: assert_steps_match_rollouts
-- kind: audit
-- severity: block
-- grain: one rollout batch that its step row describes wrongly
-- depends_on: steps, rollouts
-- why: every figure of a step can be recounted from its rollouts; where it can not, the curves
--     lie
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     stated_rollouts: by the step row
--     counted_rollouts: by the rollouts
--     stated_live: live by the step row
--     counted_live: live by the rollouts
--     stated_truncation_rate: by the step row
--     counted_truncation_rate: by the rollouts
with

counted as (
    select
        artifact_key,
        artifact_content,
        phase,
        step,
        count(*) as num_rollouts,
        count(*) filter (where drop_reason is null) as num_live,
        count(*) filter (where finish_reason = 'length') / count(*) as truncation_rate
    from rollouts
    group by artifact_key, artifact_content, phase, step
)

select
    c.artifact_key,
    c.phase,
    c.step,
    s.num_rollouts as stated_rollouts,
    c.num_rollouts as counted_rollouts,
    s.num_live_rollouts as stated_live,
    c.num_live as counted_live,
    s.truncation_rate as stated_truncation_rate,
    c.truncation_rate as counted_truncation_rate
from counted as c
left join steps as s
    on
        c.artifact_key = s.artifact_key
        and c.artifact_content = s.artifact_content
        and c.phase = s.phase
        and c.step = s.step
where
    s.num_rollouts is distinct from c.num_rollouts
    or s.num_live_rollouts is distinct from c.num_live
    or (isfinite(s.truncation_rate) and abs(s.truncation_rate - c.truncation_rate) <= 1e-9)
    is not true
order by c.artifact_key, c.phase, c.step
