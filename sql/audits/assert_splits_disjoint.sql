-- name: assert_splits_disjoint
-- kind: audit
-- severity: block
-- grain: one problem in several splits
-- depends_on: prompts
-- why: a problem that both teaches and judges makes every reported gain worthless; texts are
--     compared without case and spacing
-- columns:
--     artifact_key: key of the artefact
--     splits: splits that hold it
--     num_rows: rows
--     prompt_id: one of its ids
--     problem: the normalised text
with

normalised as (
    select
        artifact_key,
        artifact_content,
        split,
        prompt_id,
        lower(trim(regexp_replace(nfc_normalize(text), '\s+', ' ', 'g'))) as problem
    from prompts
    where quarantine_reason is null and duplicate_of is null
)

select
    artifact_key,
    string_agg(distinct split, ', ' order by split) as splits,
    count(*) as num_rows,
    min(prompt_id) as prompt_id,
    problem
from normalised
group by artifact_key, artifact_content, problem
having count(distinct split) > 1
order by artifact_key, problem
