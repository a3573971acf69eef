-- name: pass_at_k_table
-- kind: report
-- grain: one checkpoint and k of a run
-- depends_on: pass_at_k, pass_at_k_gains
-- params:
--     run: varchar = null; only this run, null for every run
-- why: the final figures, with intervals over prompts and the paired gain over the base model
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase that made the checkpoint
--     checkpoint_label: base, phase 1, phase 2, …
--     k: draws; powers of two for which at least 95 % of the problems have k decided samples
--     num_prompts: prompts with at least k decided samples
--     num_left_out: prompts with fewer
--     estimate: unbiased estimate
--     low: lower end of the normal 95 % interval
--     high: upper end
--     gain: paired difference to the base, null for the base
--     gain_low: lower end of its 95 % interval
--     gain_high: upper end
select
    p.run,
    p.phase,
    p.checkpoint_label,
    p.k,
    p.num_prompts,
    p.num_left_out,
    p.estimate,
    p.low,
    p.high,
    g.difference as gain,
    g.low as gain_low,
    g.high as gain_high
from pass_at_k as p
left join pass_at_k_gains as g
    on p.run = g.run and p.phase = g.phase and p.k = g.k
where
    bit_count(p.k) = 1
    and p.num_left_out <= 0.05 * (p.num_prompts + p.num_left_out)
    and ($run::varchar is null or p.run = $run::varchar)
order by p.run, p.k, p.phase
