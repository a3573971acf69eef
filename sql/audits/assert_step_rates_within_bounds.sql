-- name: assert_step_rates_within_bounds
-- kind: audit
-- severity: block
-- grain: one optimiser step with a rate out of [0, 1] or a negative size
-- depends_on: steps
-- why: rates lie in [0, 1]; k3 and entropy are never negative; what breaks this is computed
--     wrongly; figures over live tokens are null only where a step had none
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: optimiser step
--     clip_fraction: rate
--     zero_variance_fraction: rate
--     truncation_rate: rate
--     effective_token_fraction: rate
--     policy_entropy_nats: entropy
--     ref_kl_k3: KL
select
    artifact_key,
    phase,
    step,
    clip_fraction,
    zero_variance_fraction,
    truncation_rate,
    effective_token_fraction,
    policy_entropy_nats,
    ref_kl_k3
from steps
where
    (isfinite(zero_variance_fraction) and zero_variance_fraction between 0.0 and 1.0)
    is not true
    or (isfinite(solved_group_fraction) and solved_group_fraction between 0.0 and 1.0)
    is not true
    or (isfinite(unsolved_group_fraction) and unsolved_group_fraction between 0.0 and 1.0)
    is not true
    or (isfinite(truncation_rate) and truncation_rate between 0.0 and 1.0) is not true
    or (isfinite(effective_token_fraction) and effective_token_fraction between 0.0 and 1.0)
    is not true
    or (
        ref_cache_hit_rate is not null
        and (isfinite(ref_cache_hit_rate) and ref_cache_hit_rate between 0.0 and 1.0) is not true
    )
    or (
        validation_pass_at_1 is not null
        and (isfinite(validation_pass_at_1) and validation_pass_at_1 between 0.0 and 1.0)
        is not true
    )
    or (
        num_live_tokens > 0
        and (
            (isfinite(clip_fraction) and clip_fraction between 0.0 and 1.0) is not true
            or (isfinite(clip_fraction_low) and clip_fraction_low between 0.0 and 1.0) is not true
            or (isfinite(clip_fraction_high) and clip_fraction_high between 0.0 and 1.0) is not true
            or (isfinite(clip_fraction_dual) and clip_fraction_dual between 0.0 and 1.0) is not true
            or (isfinite(clip_fraction_positive) and clip_fraction_positive between 0.0 and 1.0)
            is not true
            or (isfinite(clip_fraction_negative) and clip_fraction_negative between 0.0 and 1.0)
            is not true
            or (
                isfinite(sampler_missing_token_fraction)
                and sampler_missing_token_fraction between 0.0 and 1.0
            ) is not true
            or (
                isfinite(corrected_away_token_fraction)
                and corrected_away_token_fraction between 0.0 and 1.0
            ) is not true
            or (isfinite(advantage_token_fraction) and advantage_token_fraction between 0.0 and 1.0)
            is not true
            or (isfinite(tail_token_fraction) and tail_token_fraction between 0.0 and 1.0)
            is not true
            or (isfinite(ess) and ess between 0.0 and 1.0 + 1e-6) is not true
            or (isfinite(sampler_ess) and sampler_ess between 0.0 and 1.0 + 1e-6) is not true
            or (isfinite(policy_entropy_nats) and policy_entropy_nats >= -1e-6) is not true
            or (ref_kl_k3 is not null and (isfinite(ref_kl_k3) and ref_kl_k3 >= -1e-6) is not true)
            or (isfinite(old_kl_k3) and old_kl_k3 >= -1e-6) is not true
            or (isfinite(sampler_kl_k3) and sampler_kl_k3 >= -1e-6) is not true
            or (isfinite(grad_norm) and grad_norm >= 0.0) is not true
        )
    )
order by artifact_key, phase, step
