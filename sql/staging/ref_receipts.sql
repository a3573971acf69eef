-- name: ref_receipts
-- kind: staging
-- grain: one completion whose reference log-probs are in the cache
-- depends_on: ref_receipts_files, artifact_files
-- columns:
--     row_key: key of the cache row
--     prompt_id: hash of the normalised problem
--     sample_index: 0-based sample of the prompt
--     fingerprint: reference model, tokenizer and dtype of the cache
--     num_completion_tokens: T, tokens
--     ref_logprob_sum: sum of the reference log-probs, nats
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.row_key,
    f.prompt_id,
    f.sample_index,
    f.fingerprint,
    f.num_completion_tokens,
    f.ref_logprob_sum,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from ref_receipts_files as f
inner join artifact_files as a on f.filename = a.file
