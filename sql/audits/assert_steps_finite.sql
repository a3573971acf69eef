-- name: assert_steps_finite
-- kind: audit
-- severity: block
-- grain: one optimiser step with a NaN or infinite figure
-- depends_on: steps
-- why: a NaN loss or gradient is in the weights from that step on; null means a step that had no
--     live token and was not taken
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: optimiser step
--     loss: loss
--     policy_loss: policy term
--     kl_loss: KL term
--     grad_norm: norm before clipping
--     importance_ratio_max: largest ratio
select
    artifact_key,
    phase,
    step,
    loss,
    policy_loss,
    kl_loss,
    grad_norm,
    importance_ratio_max
from steps
where
    not isfinite(loss)
    or not isfinite(policy_loss)
    or not isfinite(kl_loss)
    or not isfinite(grad_norm)
    or not isfinite(learning_rate)
    or not isfinite(importance_ratio_mean)
    or not isfinite(importance_ratio_max)
    or not isfinite(policy_entropy_nats)
    or not isfinite(sampling_entropy_nats)
    or not isfinite(coalesce(ref_kl_k1, 0.0))
    or not isfinite(coalesce(ref_kl_k3, 0.0))
order by artifact_key, phase, step
