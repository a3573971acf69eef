-- name: band_examples
-- kind: report
-- grain: one prefilter completion that stands for its band
-- depends_on: run_bands, run_samples, run_verdicts, run_prompts
-- params:
--     run: varchar = null; only this run, null for every run
--     per_band: integer = 3; completions a band
-- why: figures say how often, texts say what; each band shows its best, its worst and between
-- columns:
--     run: run name
--     band: band of the prompt in the prefilter
--     prompt_id: prompt
--     pass_rate: pass rate of the prompt
--     problem: text of the problem
--     gold: gold answer
--     label: verdict
--     extracted: answer the verifier read
--     reward_raw: reward
--     num_completion_tokens: length, tokens
--     finish_reason: stop or length
--     text: the completion
with

ranked as (
    select
        b.run,
        b.band,
        b.prompt_id,
        b.pass_rate,
        p.text as problem,
        p.gold,
        v.label,
        v.extracted,
        v.reward_raw,
        s.num_completion_tokens,
        s.finish_reason,
        s.text,
        row_number() over (
            partition by b.run, b.band
            order by
                coalesce(v.reward_raw, 0.5) desc,
                s.finish_reason desc,
                s.num_completion_tokens asc,
                s.prompt_id asc,
                s.sample_index asc
        ) as place,
        count(*) over (partition by b.run, b.band) as num_completions
    from run_bands as b
    inner join run_samples as s on b.run = s.run and b.prompt_id = s.prompt_id
    inner join run_verdicts as v
        on s.run = v.run and s.prompt_id = v.prompt_id and s.sample_index = v.sample_index
    inner join run_prompts as p
        on
            b.run = p.run
            and b.prompt_id = p.prompt_id
            and p.quarantine_reason is null
            and p.duplicate_of is null
    where b.phase = 0 and ($run::varchar is null or b.run = $run::varchar)
),

spread as (
    select
        *,
        floor((place - 1) * ($per_band::integer - 1) / greatest(num_completions - 1, 1)) as slot
    from ranked
)

select
    run,
    band,
    prompt_id,
    pass_rate,
    problem,
    gold,
    label,
    extracted,
    reward_raw,
    num_completion_tokens,
    finish_reason,
    text
from spread
qualify row_number() over (partition by run, band, slot order by place) = 1
order by
    run,
    list_position(['unsolved', 'hard', 'medium', 'easy', 'solved', 'unknown'], band),
    place
