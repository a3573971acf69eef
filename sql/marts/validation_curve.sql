-- name: validation_curve
-- kind: mart
-- grain: one validation during training of a run
-- depends_on: run_steps
-- columns:
--     run: run name
--     phase: training phase
--     step: optimiser step
--     pass_at_1: pass@1 on the validation problems
select
    run,
    phase,
    step,
    validation_pass_at_1 as pass_at_1
from run_steps
where validation_pass_at_1 is not null
