-- name: run_eval_verdicts
-- kind: run
-- grain: one graded evaluation sample of one checkpoint, per run that uses it
-- depends_on: eval_verdicts, run_nodes
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase that made the checkpoint
--     checkpoint_label: base, phase 1, phase 2, …
--     …: every column of eval_verdicts
select
    r.run,
    r.phase,
    case r.phase
        when 0 then 'base'
        else 'phase ' || cast(r.phase as varchar)
    end as checkpoint_label,
    t.*
from eval_verdicts as t
inner join run_nodes as r
    on t.artifact_key = r.key and t.artifact_content = r.content
