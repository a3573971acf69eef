-- name: assert_band_matches_pass_rate
-- kind: audit
-- severity: block
-- grain: one band row that is in another band than its pass rate says
-- depends_on: bands
-- params:
--     hard_max: double = 0.3; upper edge of hard, inclusive
--     medium_max: double = 0.5; upper edge of medium, inclusive
--     truncated_share: double = 0.5; share of truncated samples that makes an unsolved prompt
--         unknown
-- why: the bands partition the prompts by half-open edges; a prompt in the wrong one is drawn
--     at the wrong rate
-- columns:
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     phase: banding
--     num_correct: correct
--     num_decided: decided samples
--     band: as stored
--     expected: band by the edges
with

edged as (
    select
        artifact_key,
        prompt_id,
        phase,
        n,
        num_correct,
        num_truncated,
        n - num_null as num_decided,
        band,
        case
            when n - num_null <= 0 then 'unknown'
            when num_correct = 0 then 'unsolved'
            when num_correct = n - num_null then 'solved'
            when num_correct / nullif(n - num_null, 0) <= $hard_max::double then 'hard'
            when num_correct / nullif(n - num_null, 0) <= $medium_max::double then 'medium'
            else 'easy'
        end as expected
    from bands
)

select
    artifact_key,
    prompt_id,
    phase,
    num_correct,
    num_decided,
    band,
    expected
from edged
where
    band <> expected
    and not (
        band = 'unknown'
        and num_correct = 0
        and num_truncated >= $truncated_share::double * n
    )
order by artifact_key, prompt_id
