-- name: lineage
-- kind: report
-- grain: one node of the DAG in the latest attempt of a run
-- depends_on: run_nodes, artifact_files, run_artifacts
-- params:
--     run: varchar = null; only this run, null for every run
-- why: names the artefacts behind every figure, and the other runs that rest on the same ones
-- columns:
--     run: run name
--     attempt: latest attempt
--     stage: stage of the DAG
--     label: node of the DAG
--     state: Computed or Reused
--     key: key of the artefact
--     content: content digest of the generation
--     num_files: Parquet files
--     also_used_by: other runs that use the same generation
--     finished_at: ISO-8601 UTC
with

files as (
    select
        key,
        content,
        count(*) as num_files
    from artifact_files
    group by key, content
),

users as (
    select
        n.run,
        n.label,
        string_agg(distinct o.run, ', ' order by o.run) as also_used_by
    from run_nodes as n
    inner join run_artifacts as o
        on n.key = o.key and n.content = o.content and n.run <> o.run
    group by n.run, n.label
)

select
    n.run,
    n.attempt,
    n.stage,
    n.label,
    n.state,
    n.key,
    n.content,
    coalesce(f.num_files, 0) as num_files,
    u.also_used_by,
    n.finished_at
from run_nodes as n
left join files as f on n.key = f.key and n.content = f.content
left join users as u on n.run = u.run and n.label = u.label
where $run::varchar is null or n.run = $run::varchar
order by
    n.run,
    list_position(
        ['ingest', 'prefilter', 'variants', 'ref-logp', 'train', 'evaluate', 'audit'], n.stage
    ),
    n.phase,
    n.label
