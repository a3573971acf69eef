-- name: assert_rollouts_from_train_split
-- kind: audit
-- severity: block
-- grain: one rolled-out prompt that is not a train problem
-- depends_on: run_rollouts, run_prompts
-- why: training on a validation or test problem makes every reported gain worthless
-- columns:
--     run: run name
--     prompt_id: prompt
--     split: its split, null when there is no such problem
--     num_rollouts: rollouts
with

rolled as (
    select
        run,
        prompt_id,
        count(*) as num_rollouts
    from run_rollouts
    group by run, prompt_id
),

problems as (
    select
        run,
        prompt_id,
        split
    from run_prompts
    where quarantine_reason is null and duplicate_of is null
)

select
    r.run,
    r.prompt_id,
    p.split,
    r.num_rollouts
from rolled as r
left join problems as p on r.run = p.run and r.prompt_id = p.prompt_id
where p.split is distinct from 'train'
order by r.run, r.prompt_id
