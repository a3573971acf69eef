-- name: bands
-- kind: staging
-- grain: one prompt under one policy; phase 0 is the prefilter, p the re-banding after phase p
-- depends_on: bands_files, artifact_files
-- columns:
--     prompt_id: hash of the normalised problem
--     phase: 0 for the prefilter, p for the re-banding after phase p
--     n: samples
--     num_correct: samples labelled correct
--     num_wrong: samples labelled wrong
--     num_unparseable: samples without a readable answer
--     num_hedged: samples that gave several answers
--     num_null: samples without a reward: timeout, error, gold_unparseable
--     num_truncated: samples that ended by length
--     pass_rate: num_correct / (n - num_null); null when nothing was decided
--     pass_rate_low: lower end of the Wilson interval
--     pass_rate_high: upper end of the Wilson interval
--     band: unsolved, hard, medium, easy, solved or unknown
--     weight: draw weight of the band
--     informative_group_rate: expected share of groups of group_size with both outcomes
--     group_size: G the rate is for
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.prompt_id,
    f.phase,
    f.n,
    f.num_correct,
    f.num_wrong,
    f.num_unparseable,
    f.num_hedged,
    f.num_null,
    f.num_truncated,
    f.pass_rate,
    f.pass_rate_low,
    f.pass_rate_high,
    f.band,
    f.weight,
    f.informative_group_rate,
    f.group_size,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from bands_files as f
inner join artifact_files as a on f.filename = a.file
