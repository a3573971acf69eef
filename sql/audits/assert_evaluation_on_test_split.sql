-- name: assert_evaluation_on_test_split
-- kind: audit
-- severity: block
-- grain: one evaluated prompt that is not a test problem
-- depends_on: run_eval_samples, run_prompts
-- why: final figures come from test problems only; validation problems have steered the run
-- columns:
--     run: run name
--     prompt_id: prompt
--     split: its split, null when there is no such problem
with

evaluated as (
    select distinct
        run,
        prompt_id
    from run_eval_samples
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
    e.run,
    e.prompt_id,
    p.split
from evaluated as e
left join problems as p on e.run = p.run and e.prompt_id = p.prompt_id
where p.split is distinct from 'test'
order by e.run, e.prompt_id
