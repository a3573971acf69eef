-- name: assert_flat_groups_dropped
-- kind: audit
-- severity: block
-- grain: one group of equal rewards that carries loss
-- depends_on: groups
-- params:
--     zero_variance_dropped: boolean = true; false when filter.zero_variance is off
-- why: a group without variance has no signal; kept, it dilutes the loss of those that have
-- columns:
--     run: run name
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     prompt_id: prompt
--     outcome: solved, unsolved, flat or undecided
--     num_live: rollouts that carry loss
select
    run,
    phase,
    step,
    group_index,
    prompt_id,
    outcome,
    num_live
from groups
where $zero_variance_dropped::boolean and outcome <> 'mixed' and num_live > 0
order by run, phase, step, group_index
