-- name: assert_steps_dense
-- kind: audit
-- severity: block
-- grain: one optimiser step that does not follow the one before it
-- depends_on: run_steps
-- why: steps count by one over all phases and phases come in order; a gap or repeat is a bad
--     resume
-- columns:
--     run: run name
--     phase: training phase
--     step: optimiser step
--     previous_phase: phase of the row before
--     previous_step: step of the row before
with

ordered as (
    select
        run,
        phase,
        step,
        lag(phase) over (partition by run order by step, phase) as previous_phase,
        lag(step) over (partition by run order by step, phase) as previous_step
    from run_steps
)

select
    run,
    phase,
    step,
    previous_phase,
    previous_step
from ordered
where
    (previous_step is not null and step <> previous_step + 1)
    or phase < previous_phase
    or phase > previous_phase + 1
order by run, step
