-- name: assert_ref_receipts_match_samples
-- kind: audit
-- severity: block
-- grain: one receipt that is not for a persisted sample
-- depends_on: run_ref_receipts, run_samples
-- why: the reference was scored on exactly the tokens that were sampled
-- columns:
--     run: run name
--     prompt_id: prompt
--     sample_index: 0-based sample
--     receipt_tokens: tokens by the receipt
--     sample_tokens: tokens of the sample
--     ref_logprob_sum: nats
select
    r.run,
    r.prompt_id,
    r.sample_index,
    r.num_completion_tokens as receipt_tokens,
    s.num_completion_tokens as sample_tokens,
    r.ref_logprob_sum
from run_ref_receipts as r
left join run_samples as s
    on r.run = s.run and r.prompt_id = s.prompt_id and r.sample_index = s.sample_index
where
    r.num_completion_tokens is distinct from s.num_completion_tokens
    or (isfinite(r.ref_logprob_sum) and r.ref_logprob_sum <= 1e-3) is not true
    or r.row_key = ''
order by r.run, r.prompt_id, r.sample_index
