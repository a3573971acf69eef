-- name: sample_numbering
-- kind: mart
-- grain: one prompt or group of one table of an artefact, whoever uses it
-- depends_on: samples, verdicts, eval_samples, eval_verdicts, rollouts
-- columns:
--     table_name: samples, verdicts, eval_samples, eval_verdicts or rollouts
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     unit: prompt, checkpoint/prompt of an evaluation, phase/step/group of rollouts
--     num_rows: rows
--     num_distinct: distinct indices; those up to 63 are counted as bits, which takes a tenth of
--         the time of count(distinct)
--     first_index: lowest index
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
        'verdicts' as table_name,
        artifact_key,
        artifact_content,
        prompt_id as unit,
        sample_index
    from verdicts
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', checkpoint, prompt_id) as unit,
        sample_index
    from eval_samples
    union all
    select
        'eval_verdicts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', checkpoint, prompt_id) as unit,
        sample_index
    from eval_verdicts
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', phase, step, "group") as unit,
        sample_index
    from rollouts
),

split as (
    select
        table_name,
        artifact_key,
        artifact_content,
        unit,
        sample_index,
        case
            when sample_index between 0 and 63 then cast(1 as ubigint) << sample_index
        end as index_bit,
        case when sample_index not between 0 and 63 then sample_index end as other_index
    from numbered
)

select
    table_name,
    artifact_key,
    artifact_content,
    unit,
    count(*) as num_rows,
    cast(
        coalesce(bit_count(bit_or(index_bit)), 0)
        + coalesce(list_unique(list(other_index) filter (where other_index is not null)), 0)
        as bigint
    ) as num_distinct,
    min(sample_index) as first_index,
    max(sample_index) as last_index
from split
group by table_name, artifact_key, artifact_content, unit
