-- name: costs_by_stage
-- kind: report
-- grain: one node of the DAG in the latest attempt of a run
-- depends_on: stage_costs
-- params:
--     run: varchar = null; only this run, null for every run
-- why: says where tokens and seconds went, and what was reused
-- columns:
--     run: run name
--     stage: stage of the DAG
--     label: node of the DAG
--     state: Computed or Reused
--     seconds: wall seconds the latest attempt spent on it
--     tokens: tokens the latest attempt generated for it
--     made_seconds: wall seconds its making took
--     made_tokens: tokens its making generated
--     key: first 12 digits of the artefact's key
select
    run,
    stage,
    label,
    state,
    seconds,
    tokens,
    made_seconds,
    made_tokens,
    left(key, 12) as key
from stage_costs
where $run::varchar is null or run = $run::varchar
order by
    run,
    list_position(
        ['ingest', 'prefilter', 'variants', 'ref-logp', 'train', 'evaluate', 'audit'], stage
    ),
    finished_at,
    phase,
    label
