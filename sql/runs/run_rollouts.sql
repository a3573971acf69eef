-- name: run_rollouts
-- kind: run
-- grain: one rollout of a training group, per run that uses it
-- depends_on: rollouts, run_nodes
-- columns:
--     run: run name
--     …: every column of rollouts
select
    r.run,
    t.*
from rollouts as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
