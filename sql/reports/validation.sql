-- name: validation
-- kind: report
-- grain: one validation during training of a run
-- depends_on: validation_curve
-- params:
--     run: varchar = null; only this run, null for every run
-- why: training reward may rise by luck of the draw; this is the same problems every time
-- columns:
--     run: run name
--     phase: training phase
--     step: optimiser step
--     pass_at_1: pass@1 on the validation problems
select
    run,
    phase,
    step,
    pass_at_1
from validation_curve
where $run::varchar is null or run = $run::varchar
order by run, step
