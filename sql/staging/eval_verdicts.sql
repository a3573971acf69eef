-- name: eval_verdicts
-- kind: staging
-- grain: one graded evaluation sample of one checkpoint
-- depends_on: eval_verdicts_files, artifact_files
-- columns:
--     checkpoint: id of the evaluated weights
--     prompt_id: hash of the normalised problem
--     sample_index: 0-based sample of the prompt
--     label: verdict: correct, wrong, unparseable, hedged, timeout, error, gold_unparseable
--     extracted: answer the verifier read, null when it read none
--     candidates: every answer it found in the completion
--     reason: why
--     reward_raw: 1 for correct, 0 for wrong, unparseable, hedged; null when undecided
--     verifier_version: version of the verifier
--     verifier: math, code, or the user's reward function
--     confidence: how sure the verifier is, in [0, 1]; null when it does not say
--     share_passed: share of a program's tests that passed; null without tests
--     grading_seconds: time that grading took, seconds
--     artifact_key: key of the artefact
--     artifact_content: content digest of the generation
--     is_current: whether CURRENT points at this generation
select
    f.checkpoint,
    f.prompt_id,
    f.sample_index,
    f.label,
    f.extracted,
    f.candidates,
    f.reason,
    f.reward_raw,
    f.verifier_version,
    f.verifier,
    f.confidence,
    f.share_passed,
    f.grading_seconds,
    a.key as artifact_key,
    a.content as artifact_content,
    a.is_current
from eval_verdicts_files as f
inner join artifact_files as a on f.filename = a.file
