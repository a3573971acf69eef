-- name: unpaired_prompts
-- kind: mart
-- grain: one prompt of a run whose samples and verdicts are not both numbered 0 to n - 1, so that
--     only their rows can tell which belong together; none in a sound run
-- depends_on: sample_numbering, run_nodes
-- columns:
--     run: run name
--     prompt_id: prompt
--     num_samples: samples of the prompt
--     num_verdicts: verdicts of the prompt
with

units as (
    select
        n.run,
        u.unit as prompt_id,
        count(*) filter (where u.table_name = 'samples') as sample_units,
        count(*) filter (where u.table_name = 'verdicts') as verdict_units,
        cast(coalesce(sum(u.num_rows) filter (where u.table_name = 'samples'), 0) as bigint)
            as num_samples,
        cast(coalesce(sum(u.num_rows) filter (where u.table_name = 'verdicts'), 0) as bigint)
            as num_verdicts,
        bool_and(
            u.first_index = 0 and u.last_index = u.num_rows - 1 and u.num_distinct = u.num_rows
        ) as is_dense
    from sample_numbering as u
    inner join run_nodes as n on u.artifact_key = n.key and u.artifact_content = n.content
    where u.table_name in ('samples', 'verdicts')
    group by n.run, u.unit
)

select
    run,
    prompt_id,
    num_samples,
    num_verdicts
from units
where
    (
        sample_units = 1
        and verdict_units = 1
        and num_samples = num_verdicts
        and is_dense
    ) is not true
