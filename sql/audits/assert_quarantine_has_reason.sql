-- name: assert_quarantine_has_reason
-- kind: audit
-- severity: block
-- grain: one row set aside without a reason
-- depends_on: prompts
-- why: a row that is set aside must say why, so that it can be mended; a duplicate must name
--     its problem
-- columns:
--     artifact_key: key of the artefact
--     source: file
--     row_number: 0-based row
--     quarantine_reason: what is written
--     duplicate_of: what is written
select
    artifact_key,
    source,
    row_number,
    quarantine_reason,
    duplicate_of
from prompts
where trim(quarantine_reason) = '' or trim(duplicate_of) = ''
order by artifact_key, source, row_number
