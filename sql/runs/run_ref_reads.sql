-- name: run_ref_reads
-- kind: run
-- grain: one origin of the reference log-probs of one optimiser step, per run that uses it
-- depends_on: ref_reads, run_nodes
-- columns:
--     run: run name
--     label: node of the DAG
--     state: Computed or Reused by the latest attempt
--     …: every column of ref_reads
select
    r.run,
    r.label,
    r.state,
    t.*
from ref_reads as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
