-- name: assert_prompt_ids_unique
-- kind: audit
-- severity: block
-- grain: one problem that is in use more than once
-- depends_on: prompts
-- why: a problem that is in use twice is drawn twice as often and may sit in two splits
-- columns:
--     artifact_key: key of the artefact
--     prompt_id: the problem
--     num_rows: rows in use
--     splits: their splits
select
    artifact_key,
    prompt_id,
    count(*) as num_rows,
    string_agg(distinct split, ', ' order by split) as splits
from prompts
where quarantine_reason is null and duplicate_of is null
group by artifact_key, artifact_content, prompt_id
having count(*) > 1
order by artifact_key, prompt_id
