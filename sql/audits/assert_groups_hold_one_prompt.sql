-- name: assert_groups_hold_one_prompt
-- kind: audit
-- severity: block
-- grain: one group of several prompts or variants
-- depends_on: rollouts
-- why: a baseline over different problems credits easy problems and blames hard ones
-- columns:
--     artifact_key: key of the artefact
--     phase: training phase
--     step: first optimiser step of the batch
--     group_index: group
--     num_problems: distinct (prompt, variant)
select
    artifact_key,
    phase,
    step,
    "group" as group_index,
    count(distinct concat_ws('/', prompt_id, coalesce(variant_id, ''))) as num_problems
from rollouts
group by artifact_key, artifact_content, phase, step, "group"
having count(distinct concat_ws('/', prompt_id, coalesce(variant_id, ''))) > 1
order by artifact_key, phase, step, group_index
