-- name: events
-- kind: staging
-- grain: one controller action or alert
-- depends_on: events_files, artifact_files
-- columns:
--     phase: training phase, from 1
--     step: optimiser step over all phases, from 1
--     event_index: 0-based event of the step
--     kind: kind of action or alert
--     before: value before the action
--     after: value after it
--     reason: why
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.phase,
    f.step,
    f.event_index,
    f.kind,
    f.before,
    f.after,
    f.reason,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from events_files as f
inner join artifact_files as a on f.filename = a.file
