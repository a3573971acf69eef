-- name: assert_events_explained
-- kind: audit
-- severity: warn
-- grain: one controller action or alert without a reason
-- depends_on: events
-- why: an action that does not say why can not be judged afterwards
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: optimiser step
--     kind: kind of action
select
    artifact_key,
    phase,
    step,
    kind
from events
where trim(reason) = '' or trim(kind) = ''
order by artifact_key, phase, step, event_index
