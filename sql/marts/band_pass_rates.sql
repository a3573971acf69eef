-- name: band_pass_rates
-- kind: mart
-- grain: one band of one banding of a run
-- depends_on: run_bands
-- columns:
--     run: run name
--     phase: 0 for the prefilter, p for the re-banding after phase p
--     band: band
--     num_prompts: prompts in the band
--     prompt_share: num_prompts / prompts of the banding
--     num_samples: samples behind the band
--     pass_rate: correct / decided samples over the whole band
--     truncation_rate: samples that ended by length / samples
--     weight: draw weight
--     informative_group_rate: mean expected share of groups with both outcomes
select
    run,
    phase,
    band,
    count(*) as num_prompts,
    count(*) / sum(count(*)) over (partition by run, phase) as prompt_share,
    cast(sum(n) as bigint) as num_samples,
    sum(num_correct) / nullif(sum(n - num_null), 0) as pass_rate,
    sum(num_truncated) / nullif(sum(n), 0) as truncation_rate,
    avg(weight) as weight,
    avg(informative_group_rate) as informative_group_rate
from run_bands
group by run, phase, band
