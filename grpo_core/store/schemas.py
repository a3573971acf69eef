"""Arrow schemas of every table in the lake.

A `TableSpec` says what a row is (grain), which columns it has, by which columns it is sorted and
whether it enters the content digest. Tables with clock columns (seconds, times, hosts) are side
tables: `in_digest=False`. Log-probs are `list<float32>` in nats; beside every list stand its
length, sum, minimum, maximum and non-finite count, so that routine audits never unnest.
"""

import pyarrow as pa

from grpo_core.store.side_tables import REF_READS, TIMINGS
from grpo_core.store.table_spec import (
    CLOCKS,
    TableSpec,
    completion_fields,
    logprob_fields,
    required,
    verdict_fields,
)

__all__ = [
    "AUDIT_RESULTS",
    "BANDS",
    "EVAL_SAMPLES",
    "EVAL_VERDICTS",
    "EVENTS",
    "PROMPTS",
    "REF_READS",
    "REF_RECEIPTS",
    "ROLLOUTS",
    "SAMPLES",
    "SCHEMA_VERSION",
    "STEPS",
    "TABLES",
    "TIMINGS",
    "VARIANTS",
    "VERDICTS",
    "TableSpec",
]

SCHEMA_VERSION = 1

PROMPTS = TableSpec(
    name="prompts",
    grain="one row of a problem file",
    schema=pa.schema(
        [
            pa.field("prompt_id", pa.string()),
            required("source", pa.string()),
            required("row_number", pa.int64()),
            pa.field("split", pa.string()),
            pa.field("text", pa.string()),
            pa.field("gold", pa.string()),
            pa.field("solution", pa.string()),
            pa.field("answer_type", pa.string()),
            pa.field("verifier", pa.string()),
            pa.field("tests", pa.string()),
            pa.field("data_source", pa.string()),
            pa.field("quarantine_reason", pa.string()),
            pa.field("duplicate_of", pa.string()),
        ]
    ),
    sort=("source", "row_number"),
)

SAMPLES = TableSpec(
    name="samples",
    grain="one prefilter sample",
    schema=pa.schema(
        [
            required("prompt_id", pa.string()),
            required("sample_index", pa.int32()),
            *completion_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

VERDICTS = TableSpec(
    name="verdicts",
    grain="one graded prefilter sample",
    schema=pa.schema(
        [
            required("prompt_id", pa.string()),
            required("sample_index", pa.int32()),
            *verdict_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
    undigested=CLOCKS,
)

BANDS = TableSpec(
    name="bands",
    grain="one prompt under one policy; phase 0 is the prefilter, p the re-banding after phase p",
    schema=pa.schema(
        [
            required("prompt_id", pa.string()),
            required("phase", pa.int32()),
            required("n", pa.int32()),
            required("num_correct", pa.int32()),
            required("num_wrong", pa.int32()),
            required("num_unparseable", pa.int32()),
            required("num_hedged", pa.int32()),
            required("num_null", pa.int32()),
            required("num_truncated", pa.int32()),
            pa.field("pass_rate", pa.float64()),
            pa.field("pass_rate_low", pa.float64()),
            pa.field("pass_rate_high", pa.float64()),
            required("band", pa.string()),
            required("weight", pa.float64()),
            pa.field("informative_group_rate", pa.float64()),
            required("group_size", pa.int32()),
        ]
    ),
    sort=("prompt_id",),
)

VARIANTS = TableSpec(
    name="variants",
    grain="one changed problem with its own gold",
    schema=pa.schema(
        [
            required("prompt_id", pa.string()),
            required("variant_id", pa.string()),
            required("kind", pa.string()),
            required("text", pa.string()),
            required("gold", pa.string()),
            required("solution", pa.string()),
            required("gold_origin", pa.string()),
            pa.field("answer_type", pa.string()),
            required("complexity_before", pa.float64()),
            required("complexity_after", pa.float64()),
            required("checks", pa.list_(pa.string())),
        ]
    ),
    sort=("prompt_id", "variant_id"),
)

REF_RECEIPTS = TableSpec(
    name="ref_receipts",
    grain="one completion whose reference log-probs are in the cache",
    schema=pa.schema(
        [
            required("row_key", pa.string()),
            required("prompt_id", pa.string()),
            required("sample_index", pa.int32()),
            required("fingerprint", pa.string()),
            required("num_completion_tokens", pa.int32()),
            required("ref_logprob_sum", pa.float64()),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

ROLLOUTS = TableSpec(
    name="rollouts",
    grain="one rollout of a training group",
    schema=pa.schema(
        [
            required("phase", pa.int32()),
            required("step", pa.int64()),
            required("group", pa.int32()),
            required("sample_index", pa.int32()),
            required("prompt_id", pa.string()),
            pa.field("variant_id", pa.string()),
            pa.field("suffix_id", pa.string()),
            required("origin", pa.string()),
            *completion_fields(),
            *verdict_fields(),
            *logprob_fields("old", nullable=True),
            required("ref_row_key", pa.string()),
            pa.field("ref_logprob_sum", pa.float64()),
            pa.field("reward_graded", pa.float64()),
            pa.field("reward_base", pa.float64()),
            required("reward_overlong", pa.float64()),
            required("reward_repetition", pa.float64()),
            required("reward_format", pa.float64()),
            required("reward_language", pa.float64()),
            required("reward_length", pa.float64()),
            required("reward_kl", pa.float64()),
            pa.field("reward", pa.float64()),
            required("advantage", pa.float64()),
            pa.field("drop_reason", pa.string()),
            pa.field("update_step", pa.int64()),
            required("loss_token_weight", pa.float64()),
        ]
    ),
    sort=("phase", "step", "group", "sample_index"),
    undigested=CLOCKS,
)
"""`step` is the first optimiser step of the rollout batch; `update_step` the one that consumed the
row (null when dropped); `loss_token_weight` is 1 / denominator of that step (0 when dropped)."""

STEPS = TableSpec(
    name="steps",
    grain="one optimiser step",
    schema=pa.schema(
        [
            required("phase", pa.int32()),
            required("step", pa.int64()),
            required("rollout_batch", pa.int32()),
            required("max_completion_tokens", pa.int32()),
            pa.field("loss", pa.float64()),
            pa.field("policy_loss", pa.float64()),
            pa.field("kl_loss", pa.float64()),
            required("beta", pa.float64()),
            required("learning_rate", pa.float64()),
            pa.field("grad_norm", pa.float64()),
            pa.field("clip_fraction", pa.float64()),
            pa.field("clip_fraction_low", pa.float64()),
            pa.field("clip_fraction_high", pa.float64()),
            pa.field("importance_ratio_mean", pa.float64()),
            pa.field("importance_ratio_max", pa.float64()),
            pa.field("clip_fraction_dual", pa.float64()),
            pa.field("clip_fraction_positive", pa.float64()),
            pa.field("clip_fraction_negative", pa.float64()),
            pa.field("importance_ratio_min", pa.float64()),
            pa.field("ess", pa.float64()),
            pa.field("old_kl_k3", pa.float64()),
            pa.field("sampler_ess", pa.float64()),
            pa.field("sampler_kl_k3", pa.float64()),
            pa.field("sampler_missing_token_fraction", pa.float64()),
            pa.field("corrected_away_token_fraction", pa.float64()),
            pa.field("advantage_token_fraction", pa.float64()),
            pa.field("tail_token_fraction", pa.float64()),
            pa.field("ref_kl_k1", pa.float64()),
            pa.field("ref_kl_k3", pa.float64()),
            pa.field("policy_entropy_nats", pa.float64()),
            pa.field("sampling_entropy_nats", pa.float64()),
            required("temperature", pa.float64()),
            required("reward_mean", pa.float64()),
            required("reward_raw_mean", pa.float64()),
            required("zero_variance_fraction", pa.float64()),
            required("solved_group_fraction", pa.float64()),
            required("unsolved_group_fraction", pa.float64()),
            required("truncation_rate", pa.float64()),
            required("completion_tokens_mean", pa.float64()),
            required("num_rollouts", pa.int64()),
            required("num_live_rollouts", pa.int64()),
            required("num_generated_tokens", pa.int64()),
            required("num_live_tokens", pa.int64()),
            required("effective_token_fraction", pa.float64()),
            pa.field("ref_cache_hit_rate", pa.float64()),
            pa.field("validation_pass_at_1", pa.float64()),
        ]
    ),
    sort=("phase", "step"),
    undigested=("ref_cache_hit_rate",),
)
"""Rollout metrics (reward_mean … num_live_rollouts) describe the whole rollout batch and are equal
on each of its steps; `num_generated_tokens` is non-zero on its first step only, and leaves out
samples that the prefilter paid for, so that sums over steps are right. `num_live_tokens` and
`effective_token_fraction` are the step's own. What is computed over live tokens, and `grad_norm`,
is null on a step that had none. `step` counts over all phases, from 1."""

EVAL_SAMPLES = TableSpec(
    name="eval_samples",
    grain="one evaluation sample of one checkpoint",
    schema=pa.schema(
        [
            required("checkpoint", pa.string()),
            required("prompt_id", pa.string()),
            required("sample_index", pa.int32()),
            *completion_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

EVAL_VERDICTS = TableSpec(
    name="eval_verdicts",
    grain="one graded evaluation sample of one checkpoint",
    schema=pa.schema(
        [
            required("checkpoint", pa.string()),
            required("prompt_id", pa.string()),
            required("sample_index", pa.int32()),
            *verdict_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
    undigested=CLOCKS,
)

EVENTS = TableSpec(
    name="events",
    grain="one controller action or alert",
    schema=pa.schema(
        [
            required("phase", pa.int32()),
            required("step", pa.int64()),
            required("event_index", pa.int32()),
            required("kind", pa.string()),
            pa.field("before", pa.float64()),
            pa.field("after", pa.float64()),
            required("reason", pa.string()),
        ]
    ),
    sort=("phase", "step", "event_index"),
)

AUDIT_RESULTS = TableSpec(
    name="audit_results",
    grain="one audit",
    schema=pa.schema(
        [
            required("audit", pa.string()),
            required("severity", pa.string()),
            required("num_rows", pa.int64()),
            required("why", pa.string()),
        ]
    ),
    sort=("audit",),
)

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        PROMPTS,
        SAMPLES,
        VERDICTS,
        BANDS,
        VARIANTS,
        REF_RECEIPTS,
        ROLLOUTS,
        STEPS,
        EVAL_SAMPLES,
        EVAL_VERDICTS,
        EVENTS,
        REF_READS,
        AUDIT_RESULTS,
        TIMINGS,
    )
}
