-- name: regrade_confusion
-- kind: regrade
-- grain: one stored label and label under the present verifier, in one stage and phase
-- depends_on: regraded
-- why: shows what another verifier, or other options of it, would have said
-- columns:
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     label_before: stored verdict
--     label_after: verdict under the present verifier
--     num_completions: completions
--     completion_share: num_completions / completions of the stage and phase
select
    stage,
    phase,
    label_before,
    label_after,
    count(*) as num_completions,
    count(*) / sum(count(*)) over (partition by stage, phase) as completion_share
from regraded
group by stage, phase, label_before, label_after
order by
    list_position(['prefilter', 'train', 'evaluate'], stage),
    phase,
    label_before,
    label_after
