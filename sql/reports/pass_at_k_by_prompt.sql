-- name: pass_at_k_by_prompt
-- kind: report
-- grain: one test prompt, checkpoint and k of a run
-- depends_on: prompt_pass_at_k
-- params:
--     run: varchar = null; only this run, null for every run
--     ks: bigint[] = null; only these k, null for powers of two
-- why: what intervals and paired comparisons are made of; shows which problems were gained or lost
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase that made the checkpoint
--     checkpoint_label: base, phase 1, phase 2, …
--     k: draws
--     prompt_id: prompt
--     n: decided samples
--     c: correct samples
--     estimate: unbiased estimate
select
    run,
    phase,
    checkpoint_label,
    k,
    prompt_id,
    n,
    c,
    estimate
from prompt_pass_at_k
where
    ($run::varchar is null or run = $run::varchar)
    and case
        when $ks::bigint[] is null then bit_count(k) = 1
        else list_contains($ks::bigint[], k)
    end
order by run, k, phase, prompt_id
