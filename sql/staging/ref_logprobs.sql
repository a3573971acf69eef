-- name: ref_logprobs
-- kind: staging
-- grain: one completion in a reference cache
-- depends_on: ref_logprobs_files
-- columns:
--     fingerprint: reference weights, tokenizer, dtype and attention of the cache
--     row_key: hash of prompt tokens, completion tokens and temperature
--     num_completion_tokens: T, tokens
--     logprobs: fp32 log-probs of the frozen reference, nats
--     logprob_sum: sum
--     logprob_min: minimum
--     logprob_max: maximum
--     logprob_nonfinite: NaN and infinite ones
--     scored_by: run, attempt, node and key that scored it
select
    string_split(filename, '/')[-2] as fingerprint,
    row_key,
    num_completion_tokens,
    logprobs,
    logprob_sum,
    logprob_min,
    logprob_max,
    logprob_nonfinite,
    scored_by
from ref_logprobs_files
