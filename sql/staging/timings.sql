-- name: timings
-- kind: staging
-- grain: one timed part of the making of an artefact
-- depends_on: timings_files, artifact_files
-- columns:
--     part: what was timed
--     seconds: wall seconds
--     tokens: tokens generated in it
--     recorded_at: UTC
--     host: machine
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.part,
    f.seconds,
    f.tokens,
    f.recorded_at,
    f.host,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from timings_files as f
inner join artifact_files as a on f.filename = a.file
