-- name: phase_summary
-- kind: mart
-- grain: one training phase of a run
-- depends_on: run_steps, run_rollouts
-- columns:
--     run: run name
--     phase: training phase
--     first_step: first optimiser step
--     last_step: last optimiser step
--     max_completion_tokens: budget, tokens
--     num_rollouts: rollouts
--     reward_mean: mean reward after shaping, over decided rollouts
--     pass_rate: correct / decided rollouts
--     truncation_rate: rollouts that ended by length / rollouts
--     completion_tokens_mean: mean length, tokens
--     zero_variance_fraction: mean over steps
--     policy_entropy_first: entropy at temperature 1 at the first step, nats per token
--     policy_entropy_last: the same at the last step
--     ref_kl_k3_last: k3 KL to the reference at the last step, nats per token
--     clip_fraction_mean: mean over steps
--     grad_norm_max: largest norm before clipping
--     num_generated_tokens: tokens generated
--     effective_token_fraction: live completion tokens / completion tokens
with

stepped as (
    select
        run,
        phase,
        min(step) as first_step,
        max(step) as last_step,
        max(max_completion_tokens) as max_completion_tokens,
        avg(zero_variance_fraction) as zero_variance_fraction,
        arg_min(policy_entropy_nats, step) as policy_entropy_first,
        arg_max(policy_entropy_nats, step) as policy_entropy_last,
        arg_max(ref_kl_k3, step) as ref_kl_k3_last,
        avg(clip_fraction) as clip_fraction_mean,
        max(grad_norm) as grad_norm_max,
        cast(sum(num_generated_tokens) as bigint) as num_generated_tokens
    from run_steps
    group by run, phase
),

rolled as (
    select
        run,
        phase,
        count(*) as num_rollouts,
        avg(reward) as reward_mean,
        count(*) filter (where label = 'correct') / nullif(count(reward_raw), 0) as pass_rate,
        count(*) filter (where finish_reason = 'length') / count(*) as truncation_rate,
        avg(num_completion_tokens) as completion_tokens_mean,
        coalesce(sum(num_completion_tokens) filter (where drop_reason is null), 0)
        / nullif(sum(num_completion_tokens), 0) as effective_token_fraction
    from run_rollouts
    group by run, phase
)

select
    s.run,
    s.phase,
    s.first_step,
    s.last_step,
    s.max_completion_tokens,
    r.num_rollouts,
    r.reward_mean,
    r.pass_rate,
    r.truncation_rate,
    r.completion_tokens_mean,
    s.zero_variance_fraction,
    s.policy_entropy_first,
    s.policy_entropy_last,
    s.ref_kl_k3_last,
    s.clip_fraction_mean,
    s.grad_norm_max,
    s.num_generated_tokens,
    r.effective_token_fraction
from stepped as s
left join rolled as r on s.run = r.run and s.phase = r.phase
