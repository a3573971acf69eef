-- name: dead_groups_by_step
-- kind: report
-- grain: one rollout batch of a run
-- depends_on: dead_groups
-- params:
--     run: varchar = null; only this run, null for every run
-- why: dead groups cost tokens and teach nothing; all-right and all-wrong need opposite cures
-- columns:
--     run: run name
--     phase: training phase
--     step: first optimiser step of the batch
--     num_groups: groups
--     num_solved: groups all right
--     num_unsolved: groups all wrong
--     num_flat: groups of equal partial rewards
--     num_undecided: groups without a decided reward
--     zero_variance_fraction: dead groups / groups
--     dead_tokens: tokens generated for dead groups
select
    run,
    phase,
    step,
    num_groups,
    num_solved,
    num_unsolved,
    num_flat,
    num_undecided,
    zero_variance_fraction,
    dead_tokens
from dead_groups
where $run::varchar is null or run = $run::varchar
order by run, phase, step
