-- name: bands_to_regrade
-- kind: regrade
-- grain: one prompt in one banding of a run
-- depends_on: run_bands
-- params:
--     run: varchar; the run
-- why: what bands under the present verifier are compared with
-- columns:
--     phase: 0 for the prefilter, p for the re-banding after phase p
--     prompt_id: prompt
--     band: stored band
--     pass_rate: stored pass rate
select
    phase,
    prompt_id,
    band,
    pass_rate
from run_bands
where run = $run::varchar
order by phase, prompt_id
