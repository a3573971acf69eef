-- name: dead_groups
-- kind: mart
-- grain: one rollout batch of a run, named by its phase and first optimiser step
-- depends_on: groups
-- columns:
--     run: run name
--     phase: training phase
--     step: first optimiser step of the batch
--     num_groups: groups
--     num_solved: groups all right
--     num_unsolved: groups all wrong
--     num_flat: groups of equal partial rewards
--     num_undecided: groups without a decided reward
--     num_dead: groups without variance, all kinds
--     zero_variance_fraction: num_dead / num_groups
--     dead_tokens: tokens generated for dead groups
with

counted as (
    select
        run,
        phase,
        step,
        count(*) as num_groups,
        count(*) filter (where outcome = 'solved') as num_solved,
        count(*) filter (where outcome = 'unsolved') as num_unsolved,
        count(*) filter (where outcome = 'flat') as num_flat,
        count(*) filter (where outcome = 'undecided') as num_undecided,
        count(*) filter (where outcome <> 'mixed') as num_dead,
        cast(coalesce(sum(num_tokens) filter (where outcome <> 'mixed'), 0) as bigint)
            as dead_tokens
    from groups
    group by run, phase, step
)

select
    run,
    phase,
    step,
    num_groups,
    num_solved,
    num_unsolved,
    num_flat,
    num_undecided,
    num_dead,
    num_dead / nullif(num_groups, 0) as zero_variance_fraction,
    dead_tokens
from counted
