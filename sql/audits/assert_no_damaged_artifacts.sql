-- name: assert_no_damaged_artifacts
-- kind: audit
-- severity: block
-- grain: one artefact that is left out of every view
-- depends_on: damaged
-- why: no other audit sees the rows of a damaged artefact, so their passing says nothing; the next
--     run makes it again
-- columns:
--     stage: stage
--     key: key of the artefact
--     path: where it lies
--     reason: what is wrong
select
    stage,
    key,
    path,
    reason
from damaged
order by stage, key, path
