-- name: assert_eval_samples_per_prompt_equal
-- kind: audit
-- severity: block
-- grain: one prompt with another number of evaluation samples than planned
-- depends_on: eval_samples
-- params:
--     eval_samples_per_prompt: bigint = null; planned samples a prompt, null for the most
--         frequent number
-- why: pass rates of prompts are comparable only when each has the planned number of samples
-- columns:
--     artifact_key: key of the artefact
--     prompt_id: prompt
--     num_samples: its samples
--     planned: the planned number, or the most frequent one
with

counted as (
    select
        artifact_key,
        artifact_content,
        prompt_id,
        count(*) as num_samples
    from eval_samples
    group by artifact_key, artifact_content, prompt_id
),

expected as (
    select
        artifact_key,
        artifact_content,
        coalesce($eval_samples_per_prompt::bigint, mode(num_samples)) as planned
    from counted
    group by artifact_key, artifact_content
)

select
    c.artifact_key,
    c.prompt_id,
    c.num_samples,
    e.planned
from counted as c
inner join expected as e
    on c.artifact_key = e.artifact_key and c.artifact_content = e.artifact_content
where c.num_samples <> e.planned
order by c.artifact_key, c.prompt_id
