-- name: assert_variants_not_in_evaluation
-- kind: audit
-- severity: block
-- grain: one variant that is a validation or test problem
-- depends_on: run_variants, run_prompts
-- why: a rewrite that happens to be a held-out problem trains on the test
-- columns:
--     run: run name
--     variant_id: the variant
--     prompt_id: its parent
--     held_out_prompt_id: the problem it equals
--     split: that problem's split
--     text: the text
with

held_out as (
    select
        run,
        prompt_id,
        split,
        lower(trim(regexp_replace(nfc_normalize(text), '\s+', ' ', 'g'))) as problem
    from run_prompts
    where
        quarantine_reason is null
        and duplicate_of is null
        and split in ('validation', 'test')
),

rewritten as (
    select
        run,
        variant_id,
        prompt_id,
        text,
        lower(trim(regexp_replace(nfc_normalize(text), '\s+', ' ', 'g'))) as problem
    from run_variants
)

select
    r.run,
    r.variant_id,
    r.prompt_id,
    h.prompt_id as held_out_prompt_id,
    h.split,
    r.text
from rewritten as r
inner join held_out as h on r.run = h.run and r.problem = h.problem
order by r.run, r.variant_id
