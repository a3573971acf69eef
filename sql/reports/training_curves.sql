-- name: training_curves
-- kind: report
-- grain: one optimiser step of a run
-- depends_on: run_steps
-- params:
--     run: varchar = null; only this run, null for every run
-- why: the series to look at first when a run goes wrong
-- columns:
--     run: run name
--     phase: training phase
--     step: optimiser step
--     reward_mean: mean reward after shaping
--     reward_raw_mean: mean reward before shaping
--     zero_variance_fraction: share of groups without variance
--     truncation_rate: share of completions that ended by length
--     completion_tokens_mean: mean length, tokens
--     max_completion_tokens: budget, tokens
--     policy_entropy_nats: entropy at temperature 1, nats per token
--     sampling_entropy_nats: entropy at the sampling temperature, nats per token
--     ref_kl_k1: k1 KL to the reference, nats per token
--     ref_kl_k3: k3 KL to the reference, nats per token
--     clip_fraction: share of live tokens clipped
--     grad_norm: norm before clipping
--     loss: loss
--     learning_rate: learning rate
--     temperature: sampling temperature
--     validation_pass_at_1: pass@1 on validation
select
    run,
    phase,
    step,
    reward_mean,
    reward_raw_mean,
    zero_variance_fraction,
    truncation_rate,
    completion_tokens_mean,
    max_completion_tokens,
    policy_entropy_nats,
    sampling_entropy_nats,
    ref_kl_k1,
    ref_kl_k3,
    clip_fraction,
    grad_norm,
    loss,
    learning_rate,
    temperature,
    validation_pass_at_1
from run_steps
where $run::varchar is null or run = $run::varchar
order by run, step
