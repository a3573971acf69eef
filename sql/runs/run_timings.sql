-- name: run_timings
-- kind: run
-- grain: one timed part of the making of an artefact, per run that uses it
-- depends_on: timings, run_nodes
-- columns:
--     run: run name
--     stage: stage of the DAG
--     label: node of the DAG
--     kind: kind of artefact
--     phase: phase of the node, 0 for the base model, -1 for none
--     state: Computed or Reused by the latest attempt
--     …: every column of timings
select
    r.run,
    r.stage,
    r.label,
    r.kind,
    r.phase,
    r.state,
    t.*
from timings as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
