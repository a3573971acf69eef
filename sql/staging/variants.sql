-- name: variants
-- kind: staging
-- grain: one changed problem with its own gold
-- depends_on: variants_files, artifact_files
-- columns:
--     prompt_id: hash of the normalised problem
--     variant_id: hash of the changed problem; null for the problem itself
--     kind: kind of rewrite
--     text: the changed problem
--     gold: gold answer
--     solution: worked solution the gold was taken from
--     gold_origin: how the gold was obtained
--     answer_type: answer type the row names, else null
--     complexity_before: complexity of the parent
--     complexity_after: complexity of the variant
--     checks: checks the variant passed
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.prompt_id,
    f.variant_id,
    f.kind,
    f.text,
    f.gold,
    f.solution,
    f.gold_origin,
    f.answer_type,
    f.complexity_before,
    f.complexity_after,
    f.checks,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from variants_files as f
inner join artifact_files as a on f.filename = a.file
