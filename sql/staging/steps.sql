-- name: steps
-- kind: staging
-- grain: one optimiser step
-- depends_on: steps_files, artifact_files
-- columns:
--     phase: training phase, from 1
--     step: optimiser step over all phases, from 1
--     rollout_batch: rollout batch of the phase
--     max_completion_tokens: budget, tokens
--     loss: policy_loss + kl_loss, minimised; null, as all figures over live tokens, on a step
--         that had none
--     policy_loss: clipped surrogate
--     kl_loss: beta x ref KL
--     beta: weight of the KL term
--     learning_rate: of this step
--     grad_norm: global norm before clipping; null when no step was taken
--     clip_fraction: share of live tokens whose clipped branch is active
--     clip_fraction_low: the part with a negative advantage
--     clip_fraction_high: the part with a positive advantage
--     importance_ratio_mean: mean exp(logprobs - old_logprobs) over live tokens
--     importance_ratio_max: maximum of the same
--     clip_fraction_dual: share of live tokens that the dual clip holds
--     clip_fraction_positive: the part of clip_fraction with a positive advantage
--     clip_fraction_negative: the part of clip_fraction with a negative advantage
--     importance_ratio_min: minimum of the importance ratio
--     ess: effective sample size of the importance ratios / live tokens
--     old_kl_k3: k3 estimate of KL(old policy, policy), nats per token
--     sampler_ess: effective sample size of old / sampling ratios / live tokens
--     sampler_kl_k3: k3 estimate of KL(sampler, old policy), nats per token
--     sampler_missing_token_fraction: share of live tokens without a sampling log-prob
--     corrected_away_token_fraction: share of live tokens of weight 0 by a correction
--     advantage_token_fraction: share of live tokens whose advantage is not 0
--     tail_token_fraction: share of live tokens whose log-ratio is above 30 nats
--     ref_kl_k1: k1 estimate of KL to the reference, nats per token
--     ref_kl_k3: k3 estimate of KL to the reference, nats per token
--     policy_entropy_nats: mean entropy at temperature 1, nats per token
--     sampling_entropy_nats: mean entropy at the sampling temperature, nats per token
--     temperature: sampling temperature
--     reward_mean: mean shaped reward of the rollout batch
--     reward_raw_mean: mean reward_raw of the rollout batch
--     zero_variance_fraction: share of groups whose filter.key rewards are all equal
--     solved_group_fraction: share of groups all right
--     unsolved_group_fraction: share of groups all wrong
--     truncation_rate: share of completions that ended by length
--     completion_tokens_mean: mean completion length, tokens
--     num_rollouts: rollouts of the batch
--     num_live_rollouts: rollouts of the batch that carry loss
--     num_generated_tokens: tokens generated for the batch; on its first step only
--     num_live_tokens: tokens of the batch that carry loss
--     effective_token_fraction: tokens that carry loss / tokens generated
--     ref_cache_hit_rate: share of reference rows found in the cache
--     validation_pass_at_1: pass@1 on validation; null on steps without validation
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.phase,
    f.step,
    f.rollout_batch,
    f.max_completion_tokens,
    f.loss,
    f.policy_loss,
    f.kl_loss,
    f.beta,
    f.learning_rate,
    f.grad_norm,
    f.clip_fraction,
    f.clip_fraction_low,
    f.clip_fraction_high,
    f.importance_ratio_mean,
    f.importance_ratio_max,
    f.clip_fraction_dual,
    f.clip_fraction_positive,
    f.clip_fraction_negative,
    f.importance_ratio_min,
    f.ess,
    f.old_kl_k3,
    f.sampler_ess,
    f.sampler_kl_k3,
    f.sampler_missing_token_fraction,
    f.corrected_away_token_fraction,
    f.advantage_token_fraction,
    f.tail_token_fraction,
    f.ref_kl_k1,
    f.ref_kl_k3,
    f.policy_entropy_nats,
    f.sampling_entropy_nats,
    f.temperature,
    f.reward_mean,
    f.reward_raw_mean,
    f.zero_variance_fraction,
    f.solved_group_fraction,
    f.unsolved_group_fraction,
    f.truncation_rate,
    f.completion_tokens_mean,
    f.num_rollouts,
    f.num_live_rollouts,
    f.num_generated_tokens,
    f.num_live_tokens,
    f.effective_token_fraction,
    f.ref_cache_hit_rate,
    f.validation_pass_at_1,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from steps_files as f
inner join artifact_files as a on f.filename = a.file
