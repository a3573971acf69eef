-- name: events_by_step
-- kind: report
-- grain: one controller action or alert of a run
-- depends_on: run_events
-- params:
--     run: varchar = null; only this run, null for every run
-- why: says what the controllers changed and which alerts fired, in order
-- columns:
--     run: run name
--     phase: training phase
--     step: optimiser step
--     kind: kind of action or alert
--     before: value before
--     after: value after
--     reason: why
select
    run,
    phase,
    step,
    kind,
    before,
    after,
    reason
from run_events
where $run::varchar is null or run = $run::varchar
order by run, step, event_index
