-- name: run_events
-- kind: run
-- grain: one controller action or alert, per run that uses it
-- depends_on: events, run_nodes
-- columns:
--     run: run name
--     …: every column of events
select
    r.run,
    t.*
from events as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
