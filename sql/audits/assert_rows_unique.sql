-- name: assert_rows_unique
-- kind: audit
-- severity: block
-- grain: one row identity that appears more than once in an artefact
-- depends_on: prompts, samples, verdicts, bands, variants, ref_receipts, rollouts, steps,
--     eval_samples, eval_verdicts, events, audit_results
-- why: each table has one row of its grain; a double row is a part read twice or a unit made
--     twice
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     row_identity: the columns of the grain
--     num_rows: rows
with

identities as (
    select
        'prompts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', source, row_number) as row_identity
    from prompts
    union all
    select
        'samples' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', prompt_id, sample_index) as row_identity
    from samples
    union all
    select
        'verdicts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', prompt_id, sample_index) as row_identity
    from verdicts
    union all
    select
        'bands' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', prompt_id) as row_identity
    from bands
    union all
    select
        'variants' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', prompt_id, variant_id) as row_identity
    from variants
    union all
    select
        'ref_receipts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', prompt_id, sample_index) as row_identity
    from ref_receipts
    union all
    select
        'rollouts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', phase, step, "group", sample_index) as row_identity
    from rollouts
    union all
    select
        'steps' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', phase, step) as row_identity
    from steps
    union all
    select
        'eval_samples' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', checkpoint, prompt_id, sample_index) as row_identity
    from eval_samples
    union all
    select
        'eval_verdicts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', checkpoint, prompt_id, sample_index) as row_identity
    from eval_verdicts
    union all
    select
        'events' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', phase, step, event_index) as row_identity
    from events
    union all
    select
        'audit_results' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', audit) as row_identity
    from audit_results
)

select
    table_name,
    artifact_key,
    row_identity,
    count(*) as num_rows
from identities
group by table_name, artifact_key, artifact_content, row_identity
having count(*) > 1
order by table_name, artifact_key, row_identity
