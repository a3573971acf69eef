-- name: groups
-- kind: mart
-- grain: one training group of a run
-- depends_on: run_rollouts
-- columns:
--     run: run name
--     phase: training phase
--     step: first optimiser step of the rollout batch
--     group_index: group of the batch
--     prompt_id: prompt of the group
--     variant_id: variant of the group, null for the prompt itself
--     num_rollouts: rollouts, counted
--     num_live: rollouts that carry loss
--     num_correct: rollouts labelled correct
--     num_null: rollouts without a reward
--     num_tokens: tokens generated
--     key_min: lowest decided reward before shaping (graded when there is process credit)
--     key_max: highest of the same
--     outcome: solved, unsolved, flat (equal partial rewards), undecided or mixed
with

keyed as (
    select
        run,
        phase,
        step,
        "group" as group_index,
        prompt_id,
        variant_id,
        label,
        drop_reason,
        num_completion_tokens,
        reward_raw,
        case when reward_raw is not null then coalesce(reward_graded, reward_raw) end as reward_key
    from run_rollouts
),

counted as (
    select
        run,
        phase,
        step,
        group_index,
        min(prompt_id) as prompt_id,
        min(variant_id) as variant_id,
        count(*) as num_rollouts,
        count(*) filter (where drop_reason is null) as num_live,
        count(*) filter (where label = 'correct') as num_correct,
        count(*) filter (where reward_raw is null) as num_null,
        cast(sum(num_completion_tokens) as bigint) as num_tokens,
        min(reward_key) as key_min,
        max(reward_key) as key_max
    from keyed
    group by run, phase, step, group_index
)

select
    run,
    phase,
    step,
    group_index,
    prompt_id,
    variant_id,
    num_rollouts,
    num_live,
    num_correct,
    num_null,
    num_tokens,
    key_min,
    key_max,
    case
        when num_rollouts = num_null then 'undecided'
        when key_min < key_max then 'mixed'
        when num_correct = num_rollouts - num_null then 'solved'
        when num_correct = 0 and key_max <= 0 then 'unsolved'
        else 'flat'
    end as outcome
from counted
