-- name: assert_samples_from_train_split
-- kind: audit
-- severity: block
-- grain: one prefiltered prompt that is not a train problem
-- depends_on: run_samples, run_prompts
-- why: held-out problems may not steer what is drawn
-- columns:
--     run: run name
--     prompt_id: prompt
--     split: its split, null when there is no such problem
with

sampled as (
    select distinct
        run,
        prompt_id
    from run_samples
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
    s.run,
    s.prompt_id,
    p.split
from sampled as s
left join problems as p on s.run = p.run and s.prompt_id = p.prompt_id
where p.split is distinct from 'train'
order by s.run, s.prompt_id
