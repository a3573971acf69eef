-- name: assert_evaluation_conditions_equal
-- kind: audit
-- severity: block
-- grain: one evaluation condition that differs between checkpoints of a run
-- depends_on: run_eval_samples
-- why: checkpoints are compared at the same problems, samples, budget and temperature, or not
--     at all
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase
--     num_prompts: problems
--     num_samples: samples
--     max_completion_tokens: budget, tokens
--     temperature: sampling temperature
--     prompt_set: digest of the problems
with

conditions as (
    select
        run,
        phase,
        count(distinct prompt_id) as num_prompts,
        count(*) as num_samples,
        min(max_completion_tokens) as lowest_budget,
        max(max_completion_tokens) as highest_budget,
        min(temperature) as lowest_temperature,
        max(temperature) as highest_temperature,
        md5(string_agg(distinct prompt_id, ',' order by prompt_id)) as prompt_set
    from run_eval_samples
    group by run, phase
),

compared as (
    select
        *,
        count(distinct concat_ws('/', num_samples, lowest_budget, lowest_temperature, prompt_set))
            over (partition by run) as num_conditions
    from conditions
)

select
    run,
    phase,
    num_prompts,
    num_samples,
    highest_budget as max_completion_tokens,
    highest_temperature as temperature,
    prompt_set
from compared
where
    num_conditions > 1
    or lowest_budget <> highest_budget
    or lowest_temperature <> highest_temperature
order by run, phase
