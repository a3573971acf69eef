-- name: completions_to_regrade
-- kind: regrade
-- grain: one graded completion of a run with its problem
-- depends_on: run_samples, run_verdicts, run_rollouts, run_eval_samples, run_eval_verdicts,
--     run_prompts, run_variants
-- params:
--     run: varchar; the run
-- why: what `grpo regrade` grades again
-- columns:
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     step: optimiser step of a rollout, else null
--     group_index: group of a rollout, else null
--     prompt_id: prompt
--     variant_id: variant of a rollout, else null
--     sample_index: 0-based sample
--     finish_reason: stop or length
--     completion_text: the completion
--     label: stored verdict
--     reward_raw: stored reward
--     extracted: stored answer
--     problem_text: the problem
--     gold: gold answer
--     solution: reference solution
--     answer_type: answer type
--     data_source: source that the row names, else the file it came from
--     verifier: verifier that the row names, else null
--     tests: unit tests of the row, else null
with

graded as (
    select
        'prefilter' as stage,
        0 as phase,
        cast(null as bigint) as step,
        cast(null as integer) as group_index,
        s.prompt_id,
        cast(null as varchar) as variant_id,
        s.sample_index,
        s.finish_reason,
        s.text as completion_text,
        v.label,
        v.reward_raw,
        v.extracted
    from run_samples as s
    inner join run_verdicts as v
        on s.run = v.run and s.prompt_id = v.prompt_id and s.sample_index = v.sample_index
    where s.run = $run::varchar
    union all
    select
        'train' as stage,
        phase,
        step,
        "group" as group_index,
        prompt_id,
        variant_id,
        sample_index,
        finish_reason,
        text as completion_text,
        label,
        reward_raw,
        extracted
    from run_rollouts
    where run = $run::varchar
    union all
    select
        'evaluate' as stage,
        s.phase,
        cast(null as bigint) as step,
        cast(null as integer) as group_index,
        s.prompt_id,
        cast(null as varchar) as variant_id,
        s.sample_index,
        s.finish_reason,
        s.text as completion_text,
        v.label,
        v.reward_raw,
        v.extracted
    from run_eval_samples as s
    inner join run_eval_verdicts as v
        on
            s.run = v.run
            and s.phase = v.phase
            and s.checkpoint = v.checkpoint
            and s.prompt_id = v.prompt_id
            and s.sample_index = v.sample_index
    where s.run = $run::varchar
),

problems as (
    select
        prompt_id,
        text,
        gold,
        solution,
        answer_type,
        coalesce(data_source, source) as data_source,
        verifier,
        tests
    from run_prompts
    where run = $run::varchar and quarantine_reason is null and duplicate_of is null
),

changed_problems as (
    select
        prompt_id,
        variant_id,
        text,
        gold,
        solution,
        answer_type
    from run_variants
    where run = $run::varchar
)

select
    g.stage,
    g.phase,
    g.step,
    g.group_index,
    g.prompt_id,
    g.variant_id,
    g.sample_index,
    g.finish_reason,
    g.completion_text,
    g.label,
    g.reward_raw,
    g.extracted,
    coalesce(c.text, p.text) as problem_text,
    coalesce(c.gold, p.gold) as gold,
    case when g.variant_id is null then p.solution else c.solution end as solution,
    case when g.variant_id is null then p.answer_type else c.answer_type end as answer_type,
    p.data_source,
    p.verifier,
    case when g.variant_id is null then p.tests end as tests
from graded as g
inner join problems as p on g.prompt_id = p.prompt_id
left join changed_problems as c on g.prompt_id = c.prompt_id and g.variant_id = c.variant_id
order by
    list_position(['prefilter', 'train', 'evaluate'], g.stage),
    g.phase,
    g.step,
    g.group_index,
    g.prompt_id,
    g.sample_index
