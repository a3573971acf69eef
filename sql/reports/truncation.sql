-- name: truncation
-- kind: report
-- grain: one stage and phase of a run
-- depends_on: truncation_by_phase
-- params:
--     run: varchar = null; only this run, null for every run
-- why: a truncated completion is no answer; a high rate says that the budget is too short
-- columns:
--     run: run name
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     max_completion_tokens: budget, tokens
--     num_completions: completions
--     truncation_rate: completions that ended by length / completions
--     pass_rate: correct / decided completions
--     pass_rate_stopped: the same over completions that stopped by themselves
--     pass_rate_truncated: the same over truncated completions
--     completion_tokens_mean: mean length, tokens
--     completion_tokens_p95: 95th percentile of the length, tokens
select
    run,
    stage,
    phase,
    max_completion_tokens,
    num_completions,
    truncation_rate,
    pass_rate,
    pass_rate_stopped,
    pass_rate_truncated,
    completion_tokens_mean,
    completion_tokens_p95
from truncation_by_phase
where $run::varchar is null or run = $run::varchar
order by run, list_position(['prefilter', 'train', 'evaluate'], stage), phase
