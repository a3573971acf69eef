-- name: run_ref_receipts
-- kind: run
-- grain: one completion whose reference log-probs are in the cache, per run that uses it
-- depends_on: ref_receipts, run_nodes
-- columns:
--     run: run name
--     …: every column of ref_receipts
select
    r.run,
    t.*
from ref_receipts as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
