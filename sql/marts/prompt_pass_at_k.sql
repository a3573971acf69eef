-- name: prompt_pass_at_k
-- kind: mart
-- grain: one test prompt, checkpoint and k (1 to 32, then powers of two; k <= n) of a run
-- depends_on: run_eval_verdicts
-- columns:
--     run: run name
--     phase: 0 for the base model, else the phase that made the checkpoint
--     checkpoint_label: base, phase 1, phase 2, …
--     prompt_id: prompt
--     k: draws
--     n: decided samples
--     c: correct samples
--     estimate: 1 - C(n - c, k) / C(n, k), as 1 - product of (1 - k / i) for i from n - c + 1 to n
with

graded as (
    select
        run,
        phase,
        checkpoint_label,
        prompt_id,
        count(reward_raw) as n,
        count(*) filter (where label = 'correct') as c
    from run_eval_verdicts
    group by run, phase, checkpoint_label, prompt_id
),

draws as (
    select k
    from (select unnest(range(1, 1025)) as k) as numbers
    where k <= 32 or bit_count(k) = 1
),

cases as (
    select distinct
        g.n,
        g.c,
        d.k
    from graded as g
    inner join draws as d on g.n >= d.k
),

factors as (
    select
        n,
        c,
        k,
        unnest(range(n - c + 1, n + 1)) as i
    from cases
),

products as (
    select
        n,
        c,
        k,
        product(1.0::double - k / i::double) as none_correct
    from factors
    group by n, c, k
)

select
    g.run,
    g.phase,
    g.checkpoint_label,
    g.prompt_id,
    d.k,
    g.n,
    g.c,
    1.0::double - coalesce(p.none_correct, 1.0::double) as estimate
from graded as g
inner join cases as d on g.n = d.n and g.c = d.c
left join products as p on g.n = p.n and g.c = p.c and d.k = p.k
