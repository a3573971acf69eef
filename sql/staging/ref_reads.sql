-- name: ref_reads
-- kind: staging
-- grain: one origin of the reference log-probs of one optimiser step; step 0 is stage ref-logp
-- depends_on: ref_reads_files, artifact_files
-- columns:
--     phase: training phase, 0 for stage ref-logp
--     step: optimiser step, 0 for stage ref-logp
--     origin: scored (a miss), or what spared it: prefilter, epoch, repeat, resume, generation,
--         rerun, sweep, unknown
--     num_rows: rollouts
--     num_tokens: their completion tokens
--     seconds: seconds of look-up, or of loading and scoring
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.phase,
    f.step,
    f.origin,
    f.num_rows,
    f.num_tokens,
    f.seconds,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from ref_reads_files as f
inner join artifact_files as a on f.filename = a.file
