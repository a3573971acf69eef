-- name: run_audit_results
-- kind: run
-- grain: one audit, per run that uses it
-- depends_on: audit_results, run_nodes
-- columns:
--     run: run name
--     …: every column of audit_results
select
    r.run,
    t.*
from audit_results as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
