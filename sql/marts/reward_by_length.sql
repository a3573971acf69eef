-- name: reward_by_length
-- kind: mart
-- grain: one tenth of the budget in one training phase of a run
-- depends_on: run_rollouts
-- columns:
--     run: run name
--     phase: training phase
--     length_from: lower edge of the bucket as a share of the budget, inclusive
--     length_to: upper edge, exclusive except for the last
--     num_rollouts: rollouts
--     pass_rate: correct / decided rollouts
--     reward_mean: mean reward after shaping
--     truncation_rate: rollouts that ended by length / rollouts
--     completion_tokens_mean: mean length, tokens
with

bucketed as (
    select
        run,
        phase,
        least(
            cast(floor(10.0 * num_completion_tokens / nullif(max_completion_tokens, 0)) as integer),
            9
        ) as bucket,
        label,
        reward_raw,
        reward,
        finish_reason,
        num_completion_tokens
    from run_rollouts
)

select
    run,
    phase,
    bucket / 10.0 as length_from,
    (bucket + 1) / 10.0 as length_to,
    count(*) as num_rollouts,
    count(*) filter (where label = 'correct') / nullif(count(reward_raw), 0) as pass_rate,
    avg(reward) as reward_mean,
    count(*) filter (where finish_reason = 'length') / count(*) as truncation_rate,
    avg(num_completion_tokens) as completion_tokens_mean
from bucketed
group by run, phase, bucket
