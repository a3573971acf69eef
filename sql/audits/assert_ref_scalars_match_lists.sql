-- name: assert_ref_scalars_match_lists
-- kind: audit
-- severity: block
-- deep: true
-- grain: one cached completion whose stated length, sum or extremes are not those of its list
-- depends_on: ref_logprobs
-- why: routine audits of the reference cache read the scalars alone; here they are recomputed
-- columns:
--     fingerprint: of the cache
--     row_key: of the row
--     num_completion_tokens: stated length, tokens
--     list_length: length of the list
--     logprob_sum: stated sum, nats
--     list_sum: sum of the list
--     logprob_min: stated minimum
--     list_min: minimum of the list
--     logprob_max: stated maximum
--     list_max: maximum of the list
--     list_nonfinite: NaN and infinite ones
with

measured as (
    select
        fingerprint,
        row_key,
        num_completion_tokens,
        len(logprobs) as list_length,
        logprob_sum,
        coalesce(list_sum(logprobs), 0) as list_sum,
        logprob_min,
        coalesce(list_min(logprobs), 0) as list_min,
        logprob_max,
        coalesce(list_max(logprobs), 0) as list_max,
        len(list_filter(logprobs, lambda x: not isfinite(x))) as list_nonfinite
    from ref_logprobs
)

select
    fingerprint,
    row_key,
    num_completion_tokens,
    list_length,
    logprob_sum,
    list_sum,
    logprob_min,
    list_min,
    logprob_max,
    list_max,
    list_nonfinite
from measured
where
    list_length is distinct from num_completion_tokens
    or list_nonfinite > 0
    or (isfinite(logprob_sum) and abs(logprob_sum - list_sum) <= 1e-4 * (1.0 + abs(list_sum)))
    is not true
    or logprob_min is distinct from list_min
    or logprob_max is distinct from list_max
order by fingerprint, row_key
