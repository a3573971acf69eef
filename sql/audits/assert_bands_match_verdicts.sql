-- name: assert_bands_match_verdicts
-- kind: audit
-- severity: block
-- grain: one prompt whose band row does not count its verdicts
-- depends_on: run_bands, prompt_pass_rates
-- why: bands decide what is trained on; they must be the counts of the graded prefilter samples
-- columns:
--     run: run name
--     prompt_id: prompt
--     band_n: samples by the band row
--     verdict_n: samples by the verdicts
--     band_correct: correct by the band row
--     verdict_correct: correct by the verdicts
--     band_null: undecided by the band row
--     verdict_null: undecided by the verdicts
with

banded as (
    select
        run,
        prompt_id,
        n,
        num_correct,
        num_null,
        num_truncated
    from run_bands
    where phase = 0
),

graded as (
    select
        run,
        prompt_id,
        n,
        num_correct,
        num_null,
        num_truncated
    from prompt_pass_rates
    where phase = 0
)

select
    coalesce(b.run, g.run) as run,
    coalesce(b.prompt_id, g.prompt_id) as prompt_id,
    b.n as band_n,
    g.n as verdict_n,
    b.num_correct as band_correct,
    g.num_correct as verdict_correct,
    b.num_null as band_null,
    g.num_null as verdict_null
from banded as b
full outer join graded as g on b.run = g.run and b.prompt_id = g.prompt_id
where
    b.n is distinct from g.n
    or b.num_correct is distinct from g.num_correct
    or b.num_null is distinct from g.num_null
    or b.num_truncated is distinct from g.num_truncated
order by run, prompt_id
