-- name: pass_at_k
-- kind: mart
-- grain: one checkpoint and k of a run
-- depends_on: prompt_pass_at_k
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase that made the checkpoint
--     checkpoint_label: base, phase 1, phase 2, …
--     k: draws
--     num_prompts: prompts with at least k decided samples
--     num_left_out: prompts of the checkpoint with fewer; the estimate is not over all problems
--     estimate: mean of the unbiased estimate over prompts
--     std_error: of the mean, prompts being the independent units; null for one prompt
--     low: estimate - 1.96 std_error, not below 0
--     high: estimate + 1.96 std_error, not above 1
with

means as (
    select
        run,
        phase,
        checkpoint_label,
        k,
        count(*) as num_prompts,
        avg(estimate) as estimate,
        stddev_samp(estimate) / sqrt(count(*)) as std_error
    from prompt_pass_at_k
    group by run, phase, checkpoint_label, k
)

select
    run,
    phase,
    checkpoint_label,
    k,
    num_prompts,
    max(num_prompts) over (partition by run, phase, checkpoint_label) - num_prompts as num_left_out,
    estimate,
    std_error,
    greatest(estimate - 1.96 * std_error, 0.0) as low,
    least(estimate + 1.96 * std_error, 1.0) as high
from means
