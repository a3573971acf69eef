-- name: run_variants
-- kind: run
-- grain: one changed problem with its own gold, per run that uses it
-- depends_on: variants, run_nodes
-- columns:
--     run: run name
--     …: every column of variants
select
    r.run,
    t.*
from variants as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
