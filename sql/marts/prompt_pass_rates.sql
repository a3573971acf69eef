-- name: prompt_pass_rates
-- kind: mart
-- grain: one prompt in the prefilter (phase 0) or a training phase of a run, from verdicts
-- depends_on: run_samples, run_verdicts, run_rollouts
-- columns:
--     run: run name
--     phase: 0 for the prefilter, else the training phase
--     prompt_id: prompt; variants are left out
--     n: graded completions
--     num_correct: completions labelled correct
--     num_null: completions without a reward
--     num_truncated: completions that ended by length
--     num_tokens: tokens generated
--     pass_rate: num_correct / (n - num_null); null when nothing was decided
with

sampled as (
    select
        run,
        prompt_id,
        count(*) filter (where finish_reason = 'length') as num_truncated,
        cast(sum(num_completion_tokens) as bigint) as num_tokens
    from run_samples
    group by run, prompt_id
),

graded as (
    select
        run,
        prompt_id,
        count(*) as n,
        count(*) filter (where label = 'correct') as num_correct,
        count(*) filter (where reward_raw is null) as num_null
    from run_verdicts
    group by run, prompt_id
),

counts as (
    select
        g.run,
        0 as phase,
        g.prompt_id,
        g.n,
        g.num_correct,
        g.num_null,
        s.num_truncated,
        s.num_tokens
    from graded as g
    inner join sampled as s on g.run = s.run and g.prompt_id = s.prompt_id
    union all
    select
        run,
        phase,
        prompt_id,
        count(*) as n,
        count(*) filter (where label = 'correct') as num_correct,
        count(*) filter (where reward_raw is null) as num_null,
        count(*) filter (where finish_reason = 'length') as num_truncated,
        cast(sum(num_completion_tokens) as bigint) as num_tokens
    from run_rollouts
    where variant_id is null
    group by run, phase, prompt_id
)

select
    run,
    phase,
    prompt_id,
    n,
    num_correct,
    num_null,
    num_truncated,
    num_tokens,
    num_correct / nullif(n - num_null, 0) as pass_rate
from counts
