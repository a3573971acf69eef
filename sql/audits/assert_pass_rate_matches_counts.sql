-- name: assert_pass_rate_matches_counts
-- kind: audit
-- severity: block
-- grain: one band row whose pass rate is not correct / decided
-- depends_on: bands
-- why: undecided samples are out of the denominator; a rate that counts them as wrong calls
--     solvable prompts hard
-- columns:
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     phase: banding
--     n: samples
--     num_correct: correct
--     num_null: undecided
--     pass_rate: as stored
--     expected: num_correct / (n - num_null)
with

recounted as (
    select
        artifact_key,
        prompt_id,
        phase,
        n,
        num_correct,
        num_null,
        num_truncated,
        num_correct + num_wrong + num_unparseable + num_hedged + num_null as num_labels,
        pass_rate,
        num_correct / nullif(n - num_null, 0) as expected
    from bands
)

select
    artifact_key,
    prompt_id,
    phase,
    n,
    num_correct,
    num_null,
    pass_rate,
    expected
from recounted
where
    num_labels is distinct from n
    or num_truncated > n
    or (pass_rate is null) <> (expected is null)
    or (
        expected is not null
        and (isfinite(pass_rate) and abs(pass_rate - expected) <= 1e-12) is not true
    )
order by artifact_key, prompt_id
