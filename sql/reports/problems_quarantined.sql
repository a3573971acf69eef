-- name: problems_quarantined
-- kind: report
-- grain: one row of a problem file that is not used
-- depends_on: run_prompts
-- params:
--     run: varchar = null; only this run, null for every run
-- why: names each row that ingest set aside, so that it can be mended
-- columns:
--     run: run name
--     source: file
--     row_number: 0-based row
--     quarantine_reason: why it is set aside
--     duplicate_of: what it repeats
--     text: the problem
select
    run,
    source,
    row_number,
    quarantine_reason,
    duplicate_of,
    text
from run_prompts
where
    (quarantine_reason is not null or duplicate_of is not null)
    and ($run::varchar is null or run = $run::varchar)
order by run, source, row_number
