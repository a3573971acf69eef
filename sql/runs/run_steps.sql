-- name: run_steps
-- kind: run
-- grain: one optimiser step, per run that uses it
-- depends_on: steps, run_nodes
-- columns:
--     run: run name
--     …: every column of steps
select
    r.run,
    t.*
from steps as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
