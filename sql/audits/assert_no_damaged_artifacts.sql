-- name: assert_no_damaged_artifacts
-- kind: audit
-- severity: warn
-- grain: one artefact that is left out of every view
-- depends_on: damaged
-- why: a figure over what is left may look whole; damaged artefacts are recomputed by the next
--     run
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
