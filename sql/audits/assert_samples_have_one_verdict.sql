-- name: assert_samples_have_one_verdict
-- kind: audit
-- severity: block
-- grain: one sample without exactly one verdict, or a verdict without a sample
-- depends_on: sample_numbering, run_nodes, run_samples, run_verdicts
-- why: an ungraded sample leaves the pass rate, a double one counts twice; both look like
--     ability. Samples and verdicts that are both numbered 0 to n - 1 are one to one; the others
--     are compared row by row
-- columns:
--     run: run name
--     prompt_id: prompt
--     sample_index: 0-based sample
--     num_samples: samples with this identity
--     num_verdicts: verdicts with this identity
with

units as (
    select
        n.run,
        u.unit as prompt_id,
        count(*) filter (where u.table_name = 'samples') as sample_units,
        count(*) filter (where u.table_name = 'verdicts') as verdict_units,
        min(u.num_rows) as fewest_rows,
        max(u.num_rows) as most_rows,
        bool_and(
            u.first_index = 0 and u.last_index = u.num_rows - 1 and u.num_distinct = u.num_rows
        ) as is_dense
    from sample_numbering as u
    inner join run_nodes as n on u.artifact_key = n.key and u.artifact_content = n.content
    where u.table_name in ('samples', 'verdicts')
    group by n.run, u.unit
),

doubtful as (
    select
        run,
        prompt_id
    from units
    where
        (
            sample_units = 1
            and verdict_units = 1
            and fewest_rows = most_rows
            and is_dense
        ) is not true
),

identities as (
    select
        s.run,
        s.prompt_id,
        s.sample_index,
        1 as num_samples,
        0 as num_verdicts
    from run_samples as s
    inner join doubtful as d on s.run = d.run and s.prompt_id = d.prompt_id
    union all
    select
        v.run,
        v.prompt_id,
        v.sample_index,
        0 as num_samples,
        1 as num_verdicts
    from run_verdicts as v
    inner join doubtful as d on v.run = d.run and v.prompt_id = d.prompt_id
)

select
    run,
    prompt_id,
    sample_index,
    sum(num_samples) as num_samples,
    sum(num_verdicts) as num_verdicts
from identities
group by run, prompt_id, sample_index
having sum(num_samples) <> 1 or sum(num_verdicts) <> 1
order by run, prompt_id, sample_index
