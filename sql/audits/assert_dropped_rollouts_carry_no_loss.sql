-- name: assert_dropped_rollouts_carry_no_loss
-- kind: audit
-- severity: block
-- grain: one rollout whose drop reason and loss weight disagree
-- depends_on: rollouts
-- why: a dropped rollout has weight 0 and no update; a live one has a finite positive weight
--     and one update
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     sample_index: rollout
--     drop_reason: as stored
--     update_step: as stored
--     loss_token_weight: as stored
select
    artifact_key,
    phase,
    step,
    "group" as group_index,
    sample_index,
    drop_reason,
    update_step,
    loss_token_weight
from rollouts
where
    case
        when drop_reason is null
            then
                update_step is null
                or (loss_token_weight > 0.0 and isfinite(loss_token_weight)) is not true
        else
            update_step is not null
            or (isfinite(loss_token_weight) and loss_token_weight = 0.0) is not true
    end
order by artifact_key, phase, step, group_index, sample_index
