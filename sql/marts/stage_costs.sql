-- name: stage_costs
-- kind: mart
-- grain: one node of the DAG in the latest attempt of a run
-- depends_on: run_nodes, run_timings
-- columns:
--     run: run name
--     stage: stage of the DAG
--     label: node of the DAG
--     kind: kind of artefact
--     phase: phase of the node, 0 for the base model, -1 for none
--     state: Computed or Reused
--     seconds: wall seconds the latest attempt spent on it
--     tokens: tokens the latest attempt generated for it
--     made_seconds: wall seconds its making took, whoever made it; null when not recorded
--     made_tokens: tokens its making generated, whoever made it; null when not recorded
--     key: key of the artefact
--     finished_at: ISO-8601 UTC
with

made as (
    select
        run,
        label,
        sum(seconds) as made_seconds,
        cast(sum(tokens) as bigint) as made_tokens
    from run_timings
    group by run, label
)

select
    n.run,
    n.stage,
    n.label,
    n.kind,
    n.phase,
    n.state,
    n.seconds,
    n.tokens,
    m.made_seconds,
    m.made_tokens,
    n.key,
    n.finished_at
from run_nodes as n
left join made as m on n.run = m.run and n.label = m.label
