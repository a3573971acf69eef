-- name: regrade_changes
-- kind: regrade
-- grain: one completion whose label or reward is another under the present verifier
-- depends_on: regraded
-- why: each change is an error of the old verifier or of the new one
-- columns:
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     step: optimiser step of a rollout, else null
--     group_index: group of a rollout, else null
--     prompt_id: prompt
--     variant_id: variant of a rollout, else null
--     sample_index: 0-based sample
--     label_before: stored verdict
--     label_after: verdict under the present verifier
--     reward_before: stored reward
--     reward_after: reward under the present verifier
--     extracted_before: stored answer
--     extracted_after: answer under the present verifier
--     gold: gold answer
--     reason: why the present verifier says so
--     completion_text: the completion
select
    stage,
    phase,
    step,
    group_index,
    prompt_id,
    variant_id,
    sample_index,
    label_before,
    label_after,
    reward_before,
    reward_after,
    extracted_before,
    extracted_after,
    gold,
    reason,
    completion_text
from regraded
where
    label_before is distinct from label_after
    or reward_before is distinct from reward_after
order by
    list_position(['prefilter', 'train', 'evaluate'], stage),
    phase,
    step,
    group_index,
    prompt_id,
    sample_index
