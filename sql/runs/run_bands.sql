-- name: run_bands
-- kind: run
-- grain: one prompt under one policy (phase 0 is the prefilter), per run that uses it
-- depends_on: bands, run_nodes
-- columns:
--     run: run name
--     …: every column of bands
select
    r.run,
    t.*
from bands as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
