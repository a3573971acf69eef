-- name: assert_prompts_in_use_complete
-- kind: audit
-- severity: block
-- grain: one row in use without what a problem needs
-- depends_on: prompts
-- params:
--     default_verifier: varchar = 'math'; verifier of rows that name none; only math needs a gold
-- why: a row in use needs an id, a split, a text and a gold answer; anything else belongs in
--     quarantine
-- columns:
--     artifact_key: key of the artefact
--     source: file
--     row_number: 0-based row
--     prompt_id: the problem
--     split: split
--     gold: gold answer
select
    artifact_key,
    source,
    row_number,
    prompt_id,
    split,
    gold
from prompts
where
    quarantine_reason is null
    and duplicate_of is null
    and (
        coalesce(prompt_id, '') = ''
        or coalesce(trim(text), '') = ''
        or (
            coalesce(trim(gold), '') = ''
            and coalesce(verifier, $default_verifier::varchar) = 'math'
        )
        or coalesce(split, '') not in ('train', 'validation', 'test')
    )
order by artifact_key, source, row_number
