-- name: rewards_by_source_table
-- kind: report
-- grain: one source and verifier in one stage and phase of a run
-- depends_on: rewards_by_source
-- params:
--     run: varchar = null; only this run, null for every run
-- why: a mixture can learn on one source and lose on another; the mean hides it
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
select
    run,
    stage,
    phase,
    data_source,
    verifier,
    num_prompts,
    num_completions,
    num_null,
    pass_rate,
    reward_raw_mean,
    confidence_mean,
    share_passed_mean,
    grading_seconds
from rewards_by_source
where $run::varchar is null or run = $run::varchar
order by
    run,
    list_position(['prefilter', 'train', 'evaluate'], stage),
    phase,
    data_source,
    verifier
