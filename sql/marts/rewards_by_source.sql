-- name: rewards_by_source
-- kind: mart
-- grain: one source and verifier in one stage and phase of a run
-- depends_on: run_verdicts, run_rollouts, run_eval_verdicts, run_prompts
-- columns:
--     run: run name
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     data_source: source that the row names, else the file it came from
--     verifier: who graded
--     num_prompts: problems
--     num_completions: completions
--     num_null: completions without a reward
--     pass_rate: correct / decided completions
--     reward_raw_mean: mean reward before shaping, of decided completions
--     confidence_mean: mean confidence of the verifier, where it says one
--     share_passed_mean: mean share of tests passed, where there are tests
--     grading_seconds: time that grading took in all, seconds
with

graded as (
    select
        run,
        'prefilter' as stage,
        0 as phase,
        prompt_id,
        label,
        verifier,
        reward_raw,
        confidence,
        share_passed,
        grading_seconds
    from run_verdicts
    union all
    select
        run,
        'train' as stage,
        phase,
        prompt_id,
        label,
        verifier,
        reward_raw,
        confidence,
        share_passed,
        grading_seconds
    from run_rollouts
    union all
    select
        run,
        'evaluate' as stage,
        phase,
        prompt_id,
        label,
        verifier,
        reward_raw,
        confidence,
        share_passed,
        grading_seconds
    from run_eval_verdicts
),

sources as (
    select
        run,
        prompt_id,
        coalesce(data_source, source) as data_source
    from run_prompts
    where quarantine_reason is null and duplicate_of is null
)

select
    g.run,
    g.stage,
    g.phase,
    s.data_source,
    g.verifier,
    count(distinct g.prompt_id) as num_prompts,
    count(*) as num_completions,
    count(*) filter (where g.reward_raw is null) as num_null,
    count(*) filter (where g.label = 'correct') / nullif(count(g.reward_raw), 0) as pass_rate,
    avg(g.reward_raw) as reward_raw_mean,
    avg(g.confidence) as confidence_mean,
    avg(g.share_passed) as share_passed_mean,
    sum(g.grading_seconds) as grading_seconds
from graded as g
inner join sources as s on g.run = s.run and g.prompt_id = s.prompt_id
group by g.run, g.stage, g.phase, s.data_source, g.verifier
