-- name: completions
-- kind: mart
-- grain: one completion of a run: prefilter sample, training rollout or evaluation sample
-- depends_on: run_samples, run_verdicts, run_rollouts, run_eval_samples, run_eval_verdicts
-- columns:
--     run: run name
--     stage: prefilter, train or evaluate
--     phase: 0 for the prefilter and the base model, else the training phase
--     step: optimiser step of a rollout, else null
--     prompt_id: prompt
--     variant_id: variant of a rollout, else null
--     suffix_id: instruction suffix of a rollout, else null
--     sample_index: 0-based sample of the prompt or rollout of the group
--     label: verdict
--     extracted: answer the verifier read
--     reason: why
--     reward_raw: reward before shaping, null when undecided
--     reward: reward after shaping; reward_raw outside training
--     num_completion_tokens: length, tokens
--     max_completion_tokens: budget, tokens
--     finish_reason: stop or length
--     temperature: sampling temperature
--     mean_logprob: mean log-prob of its tokens from the sampler, nats
--     policy: id of the weights
--     text: the completion
select
    s.run,
    'prefilter' as stage,
    0 as phase,
    cast(null as bigint) as step,
    s.prompt_id,
    cast(null as varchar) as variant_id,
    cast(null as varchar) as suffix_id,
    s.sample_index,
    v.label,
    v.extracted,
    v.reason,
    v.reward_raw,
    v.reward_raw as reward,
    s.num_completion_tokens,
    s.max_completion_tokens,
    s.finish_reason,
    s.temperature,
    s.sampling_logprob_sum / nullif(s.num_completion_tokens, 0) as mean_logprob,
    s.policy,
    s.text
from run_samples as s
inner join run_verdicts as v
    on s.run = v.run and s.prompt_id = v.prompt_id and s.sample_index = v.sample_index
union all
select
    r.run,
    'train' as stage,
    r.phase,
    r.step,
    r.prompt_id,
    r.variant_id,
    r.suffix_id,
    r.sample_index,
    r.label,
    r.extracted,
    r.reason,
    r.reward_raw,
    r.reward,
    r.num_completion_tokens,
    r.max_completion_tokens,
    r.finish_reason,
    r.temperature,
    r.sampling_logprob_sum / nullif(r.num_completion_tokens, 0) as mean_logprob,
    r.policy,
    r.text
from run_rollouts as r
union all
select
    s.run,
    'evaluate' as stage,
    s.phase,
    cast(null as bigint) as step,
    s.prompt_id,
    cast(null as varchar) as variant_id,
    cast(null as varchar) as suffix_id,
    s.sample_index,
    v.label,
    v.extracted,
    v.reason,
    v.reward_raw,
    v.reward_raw as reward,
    s.num_completion_tokens,
    s.max_completion_tokens,
    s.finish_reason,
    s.temperature,
    s.sampling_logprob_sum / nullif(s.num_completion_tokens, 0) as mean_logprob,
    s.policy,
    s.text
from run_eval_samples as s
inner join run_eval_verdicts as v
    on
        s.run = v.run
        and s.phase = v.phase
        and s.checkpoint = v.checkpoint
        and s.prompt_id = v.prompt_id
        and s.sample_index = v.sample_index
