-- name: phases
-- kind: report
-- grain: one training phase of a run
-- depends_on: phase_summary
-- params:
--     run: varchar = null; only this run, null for every run
-- why: one line a phase: did it learn, was it cut off, did it drift
-- columns:
--     run: run name
--     phase: training phase
--     first_step: first optimiser step
--     last_step: last optimiser step
--     max_completion_tokens: budget, tokens
--     num_rollouts: rollouts
--     reward_mean: mean reward after shaping
--     pass_rate: correct / decided rollouts
--     truncation_rate: rollouts that ended by length / rollouts
--     completion_tokens_mean: mean length, tokens
--     zero_variance_fraction: mean over steps
--     policy_entropy_first: entropy at the first step, nats per token
--     policy_entropy_last: entropy at the last step, nats per token
--     ref_kl_k3_last: KL to the reference at the last step, nats per token
--     clip_fraction_mean: mean over steps
--     grad_norm_max: largest norm before clipping
--     num_generated_tokens: tokens generated
--     effective_token_fraction: live tokens / tokens
select
    run,
    phase,
    first_step,
    last_step,
    max_completion_tokens,
    num_rollouts,
    reward_mean,
    pass_rate,
    truncation_rate,
    completion_tokens_mean,
    zero_variance_fraction,
    policy_entropy_first,
    policy_entropy_last,
    ref_kl_k3_last,
    clip_fraction_mean,
    grad_norm_max,
    num_generated_tokens,
    effective_token_fraction
from phase_summary
where $run::varchar is null or run = $run::varchar
order by run, phase
