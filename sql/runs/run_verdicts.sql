-- name: run_verdicts
-- kind: run
-- grain: one graded prefilter sample, per run that uses it
-- depends_on: verdicts, run_nodes
-- columns:
--     run: run name
--     …: every column of verdicts
select
    r.run,
    t.*
from verdicts as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
