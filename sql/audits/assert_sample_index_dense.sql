-- name: assert_sample_index_dense
-- kind: audit
-- severity: block
-- grain: one prompt or group whose samples are not numbered 0 to n - 1
-- depends_on: sample_numbering
-- why: a gap or a repeat in the numbering is a lost or a double sample, as after a bad resume
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     unit: prompt, checkpoint/prompt or phase/step/group
--     num_rows: rows
--     num_distinct: distinct indices
--     last_index: highest index
select
    table_name,
    artifact_key,
    unit,
    num_rows,
    num_distinct,
    last_index
from sample_numbering
where
    table_name in ('samples', 'eval_samples', 'rollouts')
    and (first_index <> 0 or last_index <> num_rows - 1 or num_distinct <> num_rows)
order by table_name, artifact_key, unit
