-- name: assert_sample_index_dense
-- kind: audit
-- severity: block
-- grain: one prompt or group whose samples are not numbered 0 to n - 1
-- depends_on: samples, eval_samples, rollouts
-- why: a gap or a repeat in the numbering is a lost or a double sample, as after a bad resume
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     unit: prompt, or phase/step/group
--     num_rows: rows
--     num_distinct: distinct indices
--     last_index: highest index
with

numbered as (
    select
        'samples' as table_name,
        artifact_key,
        artifact_content,
        prompt_id as unit,
        sample_index
    from samples
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        artifact_content,
        prompt_id as unit,
        sample_index
    from eval_samples
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', phase, step, "group") as unit,
        sample_index
    from rollouts
)

select
    table_name,
    artifact_key,
    unit,
    count(*) as num_rows,
    count(distinct sample_index) as num_distinct,
    max(sample_index) as last_index
from numbered
group by table_name, artifact_key, artifact_content, unit
having
    min(sample_index) <> 0
    or max(sample_index) <> count(*) - 1
    or count(distinct sample_index) <> count(*)
order by table_name, artifact_key, unit
