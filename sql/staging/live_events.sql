-- name: live_events
-- kind: staging
-- grain: one controller action or alert of a phase in progress
-- depends_on: live_events_files
-- columns:
--     phase: training phase, from 1
--     step: optimiser step over all phases, from 1
--     event_index: 0-based event of the step
--     kind: kind of action or alert
--     before: value before the action
--     after: value after it
--     reason: why
--     unit_file: unit file of the phase in progress
select
    phase,
    step,
    event_index,
    kind,
    before,
    after,
    reason,
    filename as unit_file
from live_events_files
