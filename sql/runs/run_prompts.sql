-- name: run_prompts
-- kind: run
-- grain: one row of a problem file, per run that uses it
-- depends_on: prompts, run_nodes
-- columns:
--     run: run name
--     …: every column of prompts
select
    r.run,
    t.*
from prompts as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
