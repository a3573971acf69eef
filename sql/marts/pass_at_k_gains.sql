-- name: pass_at_k_gains
-- kind: mart
-- grain: one trained checkpoint and k of a run, paired with the base model prompt by prompt
-- depends_on: prompt_pass_at_k
-- columns:
--     run: run name
--     phase: phase that made the checkpoint
--     checkpoint_label: phase 1, phase 2, …
--     k: draws
--     num_prompts: prompts that both have at least k decided samples for
--     difference: mean over prompts of estimate - estimate of the base
--     std_error: of the difference; null for one prompt
--     low: difference - 1.96 std_error
--     high: difference + 1.96 std_error
with

paired as (
    select
        t.run,
        t.phase,
        t.checkpoint_label,
        t.k,
        t.estimate - b.estimate as gain
    from prompt_pass_at_k as t
    inner join prompt_pass_at_k as b
        on t.run = b.run and t.prompt_id = b.prompt_id and t.k = b.k
    where t.phase > 0 and b.phase = 0
),

means as (
    select
        run,
        phase,
        checkpoint_label,
        k,
        count(*) as num_prompts,
        avg(gain) as difference,
        stddev_samp(gain) / sqrt(count(*)) as std_error
    from paired
    group by run, phase, checkpoint_label, k
)

select
    run,
    phase,
    checkpoint_label,
    k,
    num_prompts,
    difference,
    std_error,
    difference - 1.96 * std_error as low,
    difference + 1.96 * std_error as high
from means
