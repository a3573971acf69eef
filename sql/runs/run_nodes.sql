-- name: run_nodes
-- kind: run
-- grain: one node of the DAG in the latest attempt of a run
-- depends_on: run_artifacts
-- columns:
--     run: run name
--     attempt: the run's latest attempt
--     stage: stage of the DAG
--     label: node of the DAG, such as samples, train/2 or eval_samples/base
--     kind: kind of artefact
--     phase: phase of train, band and evaluation nodes, 0 for the base model, -1 for none
--     key: key of the artefact
--     content: content digest of the generation
--     state: Computed or Reused
--     seconds: wall seconds this attempt spent on it
--     tokens: tokens this attempt generated for it
--     finished_at: ISO-8601 UTC
with

latest as (
    select
        run,
        max(attempt) as attempt
    from run_artifacts
    group by run
)

select
    a.run,
    a.attempt,
    a.stage,
    a.label,
    a.kind,
    a.phase,
    a.key,
    a.content,
    a.state,
    a.seconds,
    a.tokens,
    a.finished_at
from run_artifacts as a
inner join latest as l on a.run = l.run and a.attempt = l.attempt
