-- name: run_samples
-- kind: run
-- grain: one prefilter sample, per run that uses it
-- depends_on: samples, run_nodes
-- columns:
--     run: run name
--     …: every column of samples
select
    r.run,
    t.*
from samples as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
