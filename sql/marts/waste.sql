-- name: waste
-- kind: mart
-- grain: one drop reason of one training phase of a run
-- depends_on: run_rollouts
-- columns:
--     run: run name
--     phase: training phase
--     drop_reason: why the rollouts carry no loss; none for those that do
--     num_rollouts: rollouts
--     tokens: completion tokens of these rollouts
--     token_share: tokens / tokens of the phase
with

reasons as (
    select
        run,
        phase,
        coalesce(drop_reason, 'none') as drop_reason,
        num_completion_tokens
    from run_rollouts
),

counted as (
    select
        run,
        phase,
        drop_reason,
        count(*) as num_rollouts,
        cast(sum(num_completion_tokens) as bigint) as tokens
    from reasons
    group by run, phase, drop_reason
),

shared as (
    select
        run,
        phase,
        drop_reason,
        num_rollouts,
        tokens,
        sum(tokens) over (partition by run, phase) as phase_tokens
    from counted
)

select
    run,
    phase,
    drop_reason,
    num_rollouts,
    tokens,
    tokens / nullif(phase_tokens, 0) as token_share
from shared
