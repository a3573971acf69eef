-- name: audit_results
-- kind: staging
-- grain: one audit
-- depends_on: audit_results_files, artifact_files
-- columns:
--     audit: name of the audit
--     severity: block or warn
--     num_rows: offending rows
--     why: what the audit protects
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.audit,
    f.severity,
    f.num_rows,
    f.why,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from audit_results_files as f
inner join artifact_files as a on f.filename = a.file
