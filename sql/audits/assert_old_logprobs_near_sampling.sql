-- name: assert_old_logprobs_near_sampling
-- kind: audit
-- severity: warn
-- grain: one rollout batch whose sampler and trainer disagree
-- depends_on: rollouts
-- params:
--     sampler_gap_nats: double = 0.02; largest mean gap a token, nats
-- why: the sampler and the trainer hold the same weights at rollout time; a gap shows another
--     temperature, a cut nucleus, a shift by one token or stale weights
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     num_rollouts: rollouts
--     mean_gap_nats: mean |old - sampling| of the sums, per token
--     max_gap_nats: largest of a rollout, per token
with

gaps as (
    select
        artifact_key,
        artifact_content,
        phase,
        step,
        abs(old_logprob_sum - sampling_logprob_sum) / nullif(num_completion_tokens, 0) as gap
    from rollouts
)

select
    artifact_key,
    phase,
    step,
    count(*) as num_rollouts,
    avg(gap) as mean_gap_nats,
    max(gap) as max_gap_nats
from gaps
group by artifact_key, artifact_content, phase, step
having
    count(gap) > 0
    and (isfinite(avg(gap)) and avg(gap) <= $sampler_gap_nats::double) is not true
order by artifact_key, phase, step
