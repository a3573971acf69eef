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
select
    run,
    phase,
    coalesce(drop_reason, 'none') as drop_reason,
    count(*) as num_rollouts,
    cast(sum(num_completion_tokens) as bigint) as tokens,
    sum(num_completion_tokens)
    / nullif(sum(sum(num_completion_tokens)) over (partition by run, phase), 0) as token_share
from run_rollouts
group by run, phase, coalesce(drop_reason, 'none')
