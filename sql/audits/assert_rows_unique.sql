-- name: assert_rows_unique
-- kind: audit
-- severity: block
-- grain: one row identity that appears more than once in an artefact
-- depends_on: sample_numbering, prompts, samples, verdicts, bands, variants, ref_receipts,
--     rollouts, steps, eval_samples, eval_verdicts, events, audit_results
-- why: each table has one row of its grain; a double row is a part read twice or a unit made
--     twice; of numbered samples only those of a unit with a repeated number are compared
-- columns:
--     table_name: table
--     artifact_key: key of the artefact
--     row_identity: the columns of the grain
--     num_rows: rows
with

doubtful as (
    select
        table_name,
        artifact_key,
        artifact_content,
        unit
    from sample_numbering
    where num_rows <> num_distinct
),

identities as (
    select
        'prompts' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', source, row_number) as row_identity
    from prompts
    union all
    select
        d.table_name,
        t.artifact_key,
        t.artifact_content,
        concat_ws('/', d.unit, t.sample_index) as row_identity
    from samples as t
    inner join doubtful as d
        on
            d.table_name = 'samples'
            and t.artifact_key = d.artifact_key
            and t.artifact_content = d.artifact_content
            and t.prompt_id = d.unit
    union all
    select
        d.table_name,
        t.artifact_key,
        t.artifact_content,
        concat_ws('/', d.unit, t.sample_index) as row_identity
    from verdicts as t
    inner join doubtful as d
        on
            d.table_name = 'verdicts'
            and t.artifact_key = d.artifact_key
            and t.artifact_content = d.artifact_content
            and t.prompt_id = d.unit
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
        d.table_name,
        t.artifact_key,
        t.artifact_content,
        concat_ws('/', d.unit, t.sample_index) as row_identity
    from rollouts as t
    inner join doubtful as d
        on
            d.table_name = 'rollouts'
            and t.artifact_key = d.artifact_key
            and t.artifact_content = d.artifact_content
            and concat_ws('/', t.phase, t.step, t."group") = d.unit
    union all
    select
        'steps' as table_name,
        artifact_key,
        artifact_content,
        concat_ws('/', phase, step) as row_identity
    from steps
    union all
    select
        d.table_name,
        t.artifact_key,
        t.artifact_content,
        concat_ws('/', d.unit, t.sample_index) as row_identity
    from eval_samples as t
    inner join doubtful as d
        on
            d.table_name = 'eval_samples'
            and t.artifact_key = d.artifact_key
            and t.artifact_content = d.artifact_content
            and concat_ws('/', t.checkpoint, t.prompt_id) = d.unit
    union all
    select
        d.table_name,
        t.artifact_key,
        t.artifact_content,
        concat_ws('/', d.unit, t.sample_index) as row_identity
    from eval_verdicts as t
    inner join doubtful as d
        on
            d.table_name = 'eval_verdicts'
            and t.artifact_key = d.artifact_key
            and t.artifact_content = d.artifact_content
            and concat_ws('/', t.checkpoint, t.prompt_id) = d.unit
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
