-- name: assert_reward_raw_matches_label
-- kind: audit
-- severity: block
-- grain: one verdict whose reward is not the one of its label
-- depends_on: verdicts, eval_verdicts, rollouts
-- why: a timeout that became 0 punishes a right answer; undecided rewards are null and leave
--     the baseline
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     sample_index: 0-based sample
--     label: verdict
--     verifier: who graded; rewards of math and code are 1 and 0, others any number
--     reward_raw: reward
with

graded as (
    select
        'verdicts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        label,
        verifier,
        reward_raw
    from verdicts
    union all
    select
        'eval_verdicts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        label,
        verifier,
        reward_raw
    from eval_verdicts
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        prompt_id,
        sample_index,
        label,
        verifier,
        reward_raw
    from rollouts
)

select
    table_name,
    artifact_key,
    prompt_id,
    sample_index,
    label,
    verifier,
    reward_raw
from graded
where
    case
        when label in ('timeout', 'error', 'gold_unparseable') then reward_raw is not null
        when verifier in ('math', 'code') and label = 'correct'
            then reward_raw is distinct from 1.0
        when verifier in ('math', 'code') and label in ('wrong', 'unparseable', 'hedged')
            then reward_raw is distinct from 0.0
        when label in ('correct', 'wrong', 'unparseable', 'hedged')
            then (isfinite(reward_raw)) is not true
        else true
    end
order by table_name, artifact_key, prompt_id, sample_index
