-- name: assert_samples_have_one_verdict
-- kind: audit
-- severity: block
-- grain: one sample without exactly one verdict, or a verdict without a sample
-- depends_on: run_samples, run_verdicts
-- why: an ungraded sample leaves the pass rate, a double one counts twice; both look like
--     ability
-- columns:
--     run: run name
--     prompt_id: prompt
--     sample_index: 0-based sample
--     num_samples: samples with this identity
--     num_verdicts: verdicts with this identity
with

identities as (
    select
        run,
        prompt_id,
        sample_index,
        1 as num_samples,
        0 as num_verdicts
    from run_samples
    union all
    select
        run,
        prompt_id,
        sample_index,
        0 as num_samples,
        1 as num_verdicts
    from run_verdicts
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
