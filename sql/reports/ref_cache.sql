-- name: ref_cache
-- kind: report
-- grain: one origin of reference log-probs in one node of a run
-- depends_on: run_ref_reads
-- params:
--     run: varchar = null; only this run, null for every run
-- why: says how many rollouts the reference cache spared a scoring pass, and what brought them
-- columns:
--     run: run name
--     label: node of the DAG
--     state: Computed or Reused by the latest attempt; of a reused node, how it was made
--     origin: scored is a miss, every other origin a hit
--     num_rows: rollouts, counted at each step that used them
--     row_share: of the rollouts of the node
--     num_tokens: their completion tokens
--     seconds: seconds of look-up, or of loading and scoring
select
    run,
    label,
    state,
    origin,
    cast(sum(num_rows) as bigint) as num_rows,
    round(
        sum(num_rows) / nullif(sum(sum(num_rows)) over (partition by run, label), 0), 4
    ) as row_share,
    cast(sum(num_tokens) as bigint) as num_tokens,
    round(sum(seconds), 3) as seconds
from run_ref_reads
where $run::varchar is null or run = $run::varchar
group by run, label, state, origin
order by run, label, origin
