-- name: prompts
-- kind: staging
-- grain: one row of a problem file
-- depends_on: prompts_files, artifact_files
-- columns:
--     prompt_id: hash of the normalised problem; null in quarantine
--     source: label of the file the row came from
--     row_number: 0-based row of that file
--     split: train, validation or test; null in quarantine
--     text: the problem
--     gold: gold answer
--     solution: worked solution the gold was taken from
--     answer_type: answer type the row names, else null
--     verifier: verifier that the row names, else null
--     tests: unit tests of the row as JSON, else null
--     data_source: source of a mixture that the row names, else null
--     quarantine_reason: why the row is not used; null for rows in use
--     duplicate_of: the row or problem it repeats; null for rows in use
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.prompt_id,
    f.source,
    f.row_number,
    f.split,
    f.text,
    f.gold,
    f.solution,
    f.answer_type,
    f.verifier,
    f.tests,
    f.data_source,
    f.quarantine_reason,
    f.duplicate_of,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from prompts_files as f
inner join artifact_files as a on f.filename = a.file
