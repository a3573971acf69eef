-- name: prompt_pass_rates
-- kind: mart
-- grain: one prompt in the prefilter (phase 0) or a training phase of a run, from verdicts
-- depends_on: run_samples, run_verdicts, run_rollouts, unpaired_prompts
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

unpaired as materialized (
    select
        run,
        prompt_id
    from unpaired_prompts
),

unpaired_samples as materialized (
    select
        s.run,
        s.prompt_id,
        s.sample_index,
        s.finish_reason,
        s.num_completion_tokens
    from run_samples as s
    inner join unpaired as u on s.run = u.run and s.prompt_id = u.prompt_id
),

unpaired_verdicts as materialized (
    select
        v.run,
        v.prompt_id,
        v.sample_index,
        v.label,
        v.reward_raw
    from run_verdicts as v
    inner join unpaired as u on v.run = u.run and v.prompt_id = u.prompt_id
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
    left join unpaired as u on g.run = u.run and g.prompt_id = u.prompt_id
    where u.run is null
    union all
    select
        s.run,
        0 as phase,
        s.prompt_id,
        count(*) as n,
        count(*) filter (where v.label = 'correct') as num_correct,
        count(*) filter (where v.reward_raw is null) as num_null,
        count(*) filter (where s.finish_reason = 'length') as num_truncated,
        cast(sum(s.num_completion_tokens) as bigint) as num_tokens
    from unpaired_samples as s
    inner join unpaired_verdicts as v
        on s.run = v.run and s.prompt_id = v.prompt_id and s.sample_index = v.sample_index
    group by s.run, s.prompt_id
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
