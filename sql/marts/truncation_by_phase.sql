-- name: truncation_by_phase
-- kind: mart
-- grain: one stage and phase of a run
-- depends_on: completions
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
    max(max_completion_tokens) as max_completion_tokens,
    count(*) as num_completions,
    count(*) filter (where finish_reason = 'length') / count(*) as truncation_rate,
    count(*) filter (where label = 'correct') / nullif(count(reward_raw), 0) as pass_rate,
    count(*) filter (where label = 'correct' and finish_reason = 'stop')
    / nullif(count(reward_raw) filter (where finish_reason = 'stop'), 0) as pass_rate_stopped,
    count(*) filter (where label = 'correct' and finish_reason = 'length')
    / nullif(count(reward_raw) filter (where finish_reason = 'length'), 0) as pass_rate_truncated,
    avg(num_completion_tokens) as completion_tokens_mean,
    quantile_cont(num_completion_tokens, 0.95) as completion_tokens_p95
from completions
group by run, stage, phase
