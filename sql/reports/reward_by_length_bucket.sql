-- name: reward_by_length_bucket
-- kind: report
-- grain: one tenth of the budget in one training phase of a run
-- depends_on: reward_by_length
-- params:
--     run: varchar = null; only this run, null for every run
-- why: shows whether long answers are right or only long
-- columns:
--     run: run name
--     phase: training phase
--     length_from: lower edge as a share of the budget
--     length_to: upper edge
--     num_rollouts: rollouts
--     pass_rate: correct / decided rollouts
--     reward_mean: mean reward after shaping
--     truncation_rate: rollouts that ended by length / rollouts
--     completion_tokens_mean: mean length, tokens
select
    run,
    phase,
    length_from,
    length_to,
    num_rollouts,
    pass_rate,
    reward_mean,
    truncation_rate,
    completion_tokens_mean
from reward_by_length
where $run::varchar is null or run = $run::varchar
order by run, phase, length_from
