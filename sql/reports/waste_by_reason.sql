-- name: waste_by_reason
-- kind: report
-- grain: one drop reason of one training phase of a run
-- depends_on: waste
-- params:
--     run: varchar = null; only this run, null for every run
-- why: tokens that were generated and carry no loss are the first thing to save
-- columns:
--     run: run name
--     phase: training phase
--     drop_reason: why the rollouts carry no loss; none for those that do
--     num_rollouts: rollouts
--     tokens: completion tokens
--     token_share: tokens / tokens of the phase
select
    run,
    phase,
    drop_reason,
    num_rollouts,
    tokens,
    token_share
from waste
where $run::varchar is null or run = $run::varchar
order by run asc, phase asc, tokens desc, drop_reason asc
