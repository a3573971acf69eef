-- name: regrade_band_changes
-- kind: regrade
-- grain: one prompt whose band would be another under the present verifier
-- depends_on: regraded_bands
-- why: bands decide what is trained on
-- columns:
--     phase: 0 for the prefilter, p for the re-banding after phase p
--     prompt_id: prompt
--     band_before: stored band
--     band_after: band under the present verifier
--     pass_rate_before: stored pass rate
--     pass_rate_after: pass rate under the present verifier
select
    phase,
    prompt_id,
    band_before,
    band_after,
    pass_rate_before,
    pass_rate_after
from regraded_bands
where band_before is distinct from band_after
order by phase, prompt_id
