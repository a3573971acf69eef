-- name: samples_of_prompt
-- kind: report
-- grain: one completion of one prompt
-- depends_on: completions
-- params:
--     prompt_id: varchar; the prompt; its first characters are enough
--     run: varchar = null; only this run, null for every run
-- why: shows side by side what the model said to one problem, before, during and after training
-- columns:
--     run: run name
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     step: optimiser step of a rollout
--     variant_id: variant, null for the prompt itself
--     suffix_id: instruction suffix
--     sample_index: 0-based sample
--     label: verdict
--     extracted: answer the verifier read
--     reward: reward after shaping
--     num_completion_tokens: length, tokens
--     finish_reason: stop or length
--     temperature: sampling temperature
--     text: the completion
select
    run,
    stage,
    phase,
    step,
    variant_id,
    suffix_id,
    sample_index,
    label,
    extracted,
    reward,
    num_completion_tokens,
    finish_reason,
    temperature,
    text
from completions
where
    starts_with(prompt_id, $prompt_id::varchar)
    and ($run::varchar is null or run = $run::varchar)
order by
    run,
    list_position(['prefilter', 'train', 'evaluate'], stage),
    phase,
    step,
    variant_id,
    sample_index
