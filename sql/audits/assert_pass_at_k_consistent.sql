-- name: assert_pass_at_k_consistent
-- kind: audit
-- severity: block
-- grain: one estimate of pass@k that breaks an identity
-- depends_on: prompt_pass_at_k
-- why: pass@1 is c / n, pass@n is 1 when anything was correct, and pass@k never falls with k
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase
--     prompt_id: prompt
--     k: draws
--     n: decided samples
--     c: correct samples
--     estimate: pass@k
--     previous: pass@ the next smaller k
with

ordered as (
    select
        run,
        phase,
        checkpoint_label,
        prompt_id,
        k,
        n,
        c,
        estimate,
        lag(estimate) over (
            partition by run, phase, checkpoint_label, prompt_id
            order by k
        ) as previous
    from prompt_pass_at_k
)

select
    run,
    phase,
    prompt_id,
    k,
    n,
    c,
    estimate,
    previous
from ordered
where
    (isfinite(estimate) and estimate between 0.0 and 1.0 + 1e-12) is not true
    or c > n
    or (k = 1 and (abs(estimate - c / n) <= 1e-12) is not true)
    or (k = n and c > 0 and (abs(estimate - 1.0) <= 1e-12) is not true)
    or estimate < previous - 1e-12
order by run, phase, prompt_id, k
