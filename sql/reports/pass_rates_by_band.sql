-- name: pass_rates_by_band
-- kind: report
-- grain: one band of one banding of a run
-- depends_on: band_pass_rates
-- params:
--     run: varchar = null; only this run, null for every run
-- why: shows how much of the prompt set can still teach, before and after each phase
-- columns:
--     run: run name
--     phase: 0 for the prefilter, p for the re-banding after phase p
--     band: band, hardest first
--     num_prompts: prompts in the band
--     prompt_share: num_prompts / prompts of the banding
--     pass_rate: correct / decided samples
--     truncation_rate: samples that ended by length / samples
--     weight: draw weight
--     informative_group_rate: mean expected share of groups with both outcomes
select
    run,
    phase,
    band,
    num_prompts,
    prompt_share,
    pass_rate,
    truncation_rate,
    weight,
    informative_group_rate
from band_pass_rates
where $run::varchar is null or run = $run::varchar
order by
    run,
    phase,
    list_position(['unsolved', 'hard', 'medium', 'easy', 'solved', 'unknown'], band)
