-- name: assert_variants_have_train_parents
-- kind: audit
-- severity: block
-- grain: one variant whose parent is not a train problem
-- depends_on: run_variants, run_prompts
-- why: a variant keeps its parent's split; a variant of a held-out problem leaks it
-- columns:
--     run: run name
--     variant_id: the variant
--     prompt_id: its parent
--     split: the parent's split, null when there is no such problem
with

parents as (
    select
        run,
        prompt_id,
        split
    from run_prompts
    where quarantine_reason is null and duplicate_of is null
)

select
    v.run,
    v.variant_id,
    v.prompt_id,
    p.split
from run_variants as v
left join parents as p on v.run = p.run and v.prompt_id = p.prompt_id
where p.split is distinct from 'train'
order by v.run, v.variant_id
