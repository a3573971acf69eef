-- name: assert_duplicates_point_to_problems
-- kind: audit
-- severity: block
-- grain: one duplicate whose original is not in use
-- depends_on: prompts
-- why: a duplicate stands for a row in use; when that row is missing, the problem is lost
-- columns:
--     artifact_key: key of the artefact
--     source: file
--     row_number: 0-based row
--     duplicate_of: the problem it names
with

in_use as (
    select
        artifact_key,
        artifact_content,
        prompt_id
    from prompts
    where quarantine_reason is null and duplicate_of is null
)

select
    d.artifact_key,
    d.source,
    d.row_number,
    d.duplicate_of
from prompts as d
left join in_use as u
    on
        d.artifact_key = u.artifact_key
        and d.artifact_content = u.artifact_content
        and d.duplicate_of = u.prompt_id
where d.duplicate_of is not null and u.prompt_id is null
order by d.artifact_key, d.source, d.row_number
