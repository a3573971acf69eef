-- name: assert_samples_have_one_verdict
-- kind: audit
-- severity: block
-- grain: one sample without exactly one verdict, or a verdict without a sample
-- depends_on: unpaired_prompts, run_samples, run_verdicts
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

unpaired as materialized (
    select
        run,
        prompt_id
    from unpaired_prompts
),

identities as (
    select
        s.run,
        s.prompt_id,
        s.sample_index,
        1 as num_samples,
        0 as num_verdicts
    from run_samples as s
    inner join unpaired as u on s.run = u.run and s.prompt_id = u.prompt_id
    union all
    select
        v.run,
        v.prompt_id,
        v.sample_index,
        0 as num_samples,
        1 as num_verdicts
    from run_verdicts as v
    inner join unpaired as u on v.run = u.run and v.prompt_id = u.prompt_id
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
