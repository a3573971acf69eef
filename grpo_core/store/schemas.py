"""Arrow schemas of every table in the lake.

A `TableSpec` says what a row is (grain), which columns it has, by which columns it is sorted and
whether it enters the content digest. Tables with clock columns (seconds, times, hosts) are side
tables: `in_digest=False`. Log-probs are `list<float32>` in nats; beside every list stand its
length, sum, minimum, maximum and non-finite count, so that routine audits never unnest.
"""

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 1

_TOKEN_IDS = pa.list_(pa.int32())
_LOGPROBS = pa.list_(pa.float32())
_UTC = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table of the lake.

    Args:
        name: Name of the table and of its SQL view.
        grain: What one row is.
        schema: Column names, types and nullability.
        sort: Columns that order the rows; together unique.
        in_digest: False for side tables with clock columns.
        undigested: Columns that tell how a row came about (cache hits), not what it is.
    """

    name: str
    grain: str
    schema: pa.Schema
    sort: tuple[str, ...]
    in_digest: bool = True
    undigested: tuple[str, ...] = ()


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _logprob_fields(prefix: str, *, nullable: bool = False) -> list[pa.Field]:
    """The list and its per-row scalars."""
    return [
        pa.field(f"{prefix}_logprobs", _LOGPROBS, nullable=nullable),
        pa.field(f"{prefix}_logprob_sum", pa.float64(), nullable=nullable),
        pa.field(f"{prefix}_logprob_min", pa.float32(), nullable=nullable),
        pa.field(f"{prefix}_logprob_max", pa.float32(), nullable=nullable),
        pa.field(f"{prefix}_logprob_nonfinite", pa.int32(), nullable=nullable),
    ]


def _completion_fields() -> list[pa.Field]:
    """A completion with its sampling metadata, as the sampler gave it."""
    return [
        _required("policy", pa.string()),
        _required("prompt_token_ids", _TOKEN_IDS),
        _required("num_prompt_tokens", pa.int32()),
        _required("completion_token_ids", _TOKEN_IDS),
        _required("num_completion_tokens", pa.int32()),
        _required("text", pa.string()),
        _required("temperature", pa.float64()),
        _required("max_completion_tokens", pa.int32()),
        _required("finish_reason", pa.string()),
        *_logprob_fields("sampling"),
    ]


def _verdict_fields() -> list[pa.Field]:
    """A graded completion; `reward_raw` is null for timeout, error and gold_unparseable."""
    return [
        _required("label", pa.string()),
        pa.field("extracted", pa.string()),
        _required("candidates", pa.list_(pa.string())),
        _required("reason", pa.string()),
        pa.field("reward_raw", pa.float64()),
        _required("verifier_version", pa.int32()),
    ]


PROMPTS = TableSpec(
    name="prompts",
    grain="one row of a problem file",
    schema=pa.schema(
        [
            pa.field("prompt_id", pa.string()),
            _required("source", pa.string()),
            _required("row_number", pa.int64()),
            pa.field("split", pa.string()),
            pa.field("text", pa.string()),
            pa.field("gold", pa.string()),
            pa.field("solution", pa.string()),
            pa.field("answer_type", pa.string()),
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
            _required("prompt_id", pa.string()),
            _required("sample_index", pa.int32()),
            *_completion_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

VERDICTS = TableSpec(
    name="verdicts",
    grain="one graded prefilter sample",
    schema=pa.schema(
        [
            _required("prompt_id", pa.string()),
            _required("sample_index", pa.int32()),
            *_verdict_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

BANDS = TableSpec(
    name="bands",
    grain="one prompt under one policy; phase 0 is the prefilter, p the re-banding after phase p",
    schema=pa.schema(
        [
            _required("prompt_id", pa.string()),
            _required("phase", pa.int32()),
            _required("n", pa.int32()),
            _required("num_correct", pa.int32()),
            _required("num_wrong", pa.int32()),
            _required("num_unparseable", pa.int32()),
            _required("num_hedged", pa.int32()),
            _required("num_null", pa.int32()),
            _required("num_truncated", pa.int32()),
            pa.field("pass_rate", pa.float64()),
            pa.field("pass_rate_low", pa.float64()),
            pa.field("pass_rate_high", pa.float64()),
            _required("band", pa.string()),
            _required("weight", pa.float64()),
            pa.field("informative_group_rate", pa.float64()),
            _required("group_size", pa.int32()),
        ]
    ),
    sort=("prompt_id",),
)

VARIANTS = TableSpec(
    name="variants",
    grain="one changed problem with its own gold",
    schema=pa.schema(
        [
            _required("prompt_id", pa.string()),
            _required("variant_id", pa.string()),
            _required("kind", pa.string()),
            _required("text", pa.string()),
            _required("gold", pa.string()),
            _required("solution", pa.string()),
            _required("gold_origin", pa.string()),
            pa.field("answer_type", pa.string()),
            _required("complexity_before", pa.float64()),
            _required("complexity_after", pa.float64()),
            _required("checks", pa.list_(pa.string())),
        ]
    ),
    sort=("prompt_id", "variant_id"),
)

REF_RECEIPTS = TableSpec(
    name="ref_receipts",
    grain="one completion whose reference log-probs are in the cache",
    schema=pa.schema(
        [
            _required("row_key", pa.string()),
            _required("prompt_id", pa.string()),
            _required("sample_index", pa.int32()),
            _required("fingerprint", pa.string()),
            _required("num_completion_tokens", pa.int32()),
            _required("ref_logprob_sum", pa.float64()),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

ROLLOUTS = TableSpec(
    name="rollouts",
    grain="one rollout of a training group",
    schema=pa.schema(
        [
            _required("phase", pa.int32()),
            _required("step", pa.int64()),
            _required("group", pa.int32()),
            _required("sample_index", pa.int32()),
            _required("prompt_id", pa.string()),
            pa.field("variant_id", pa.string()),
            pa.field("suffix_id", pa.string()),
            _required("origin", pa.string()),
            *_completion_fields(),
            *_verdict_fields(),
            *_logprob_fields("old", nullable=True),
            _required("ref_row_key", pa.string()),
            pa.field("ref_logprob_sum", pa.float64()),
            pa.field("reward_graded", pa.float64()),
            pa.field("reward_base", pa.float64()),
            _required("reward_overlong", pa.float64()),
            _required("reward_repetition", pa.float64()),
            _required("reward_format", pa.float64()),
            _required("reward_language", pa.float64()),
            _required("reward_length", pa.float64()),
            _required("reward_kl", pa.float64()),
            pa.field("reward", pa.float64()),
            _required("advantage", pa.float64()),
            pa.field("drop_reason", pa.string()),
            pa.field("update_step", pa.int64()),
            _required("loss_token_weight", pa.float64()),
        ]
    ),
    sort=("phase", "step", "group", "sample_index"),
)
"""`step` is the first optimiser step of the rollout batch; `update_step` the one that consumed the
row (null when dropped); `loss_token_weight` is 1 / denominator of that step (0 when dropped)."""

STEPS = TableSpec(
    name="steps",
    grain="one optimiser step",
    schema=pa.schema(
        [
            _required("phase", pa.int32()),
            _required("step", pa.int64()),
            _required("rollout_batch", pa.int32()),
            _required("max_completion_tokens", pa.int32()),
            _required("loss", pa.float64()),
            _required("policy_loss", pa.float64()),
            _required("kl_loss", pa.float64()),
            _required("beta", pa.float64()),
            _required("learning_rate", pa.float64()),
            _required("grad_norm", pa.float64()),
            _required("clip_fraction", pa.float64()),
            _required("clip_fraction_low", pa.float64()),
            _required("clip_fraction_high", pa.float64()),
            _required("importance_ratio_mean", pa.float64()),
            _required("importance_ratio_max", pa.float64()),
            pa.field("ref_kl_k1", pa.float64()),
            pa.field("ref_kl_k3", pa.float64()),
            _required("policy_entropy_nats", pa.float64()),
            _required("sampling_entropy_nats", pa.float64()),
            _required("temperature", pa.float64()),
            _required("reward_mean", pa.float64()),
            _required("reward_raw_mean", pa.float64()),
            _required("zero_variance_fraction", pa.float64()),
            _required("solved_group_fraction", pa.float64()),
            _required("unsolved_group_fraction", pa.float64()),
            _required("truncation_rate", pa.float64()),
            _required("completion_tokens_mean", pa.float64()),
            _required("num_rollouts", pa.int64()),
            _required("num_live_rollouts", pa.int64()),
            _required("num_generated_tokens", pa.int64()),
            _required("num_live_tokens", pa.int64()),
            _required("effective_token_fraction", pa.float64()),
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
`effective_token_fraction` are the step's own. `step` counts over all phases, from 1."""

EVAL_SAMPLES = TableSpec(
    name="eval_samples",
    grain="one evaluation sample of one checkpoint",
    schema=pa.schema(
        [
            _required("checkpoint", pa.string()),
            _required("prompt_id", pa.string()),
            _required("sample_index", pa.int32()),
            *_completion_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

EVAL_VERDICTS = TableSpec(
    name="eval_verdicts",
    grain="one graded evaluation sample of one checkpoint",
    schema=pa.schema(
        [
            _required("checkpoint", pa.string()),
            _required("prompt_id", pa.string()),
            _required("sample_index", pa.int32()),
            *_verdict_fields(),
        ]
    ),
    sort=("prompt_id", "sample_index"),
)

EVENTS = TableSpec(
    name="events",
    grain="one controller action or alert",
    schema=pa.schema(
        [
            _required("phase", pa.int32()),
            _required("step", pa.int64()),
            _required("event_index", pa.int32()),
            _required("kind", pa.string()),
            pa.field("before", pa.float64()),
            pa.field("after", pa.float64()),
            _required("reason", pa.string()),
        ]
    ),
    sort=("phase", "step", "event_index"),
)

AUDIT_RESULTS = TableSpec(
    name="audit_results",
    grain="one audit",
    schema=pa.schema(
        [
            _required("audit", pa.string()),
            _required("severity", pa.string()),
            _required("num_rows", pa.int64()),
            _required("why", pa.string()),
        ]
    ),
    sort=("audit",),
)

TIMINGS = TableSpec(
    name="timings",
    grain="one timed part of the making of an artefact",
    schema=pa.schema(
        [
            _required("part", pa.string()),
            _required("seconds", pa.float64()),
            _required("tokens", pa.int64()),
            _required("recorded_at", _UTC),
            _required("host", pa.string()),
        ]
    ),
    sort=("recorded_at", "part"),
    in_digest=False,
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
        AUDIT_RESULTS,
        TIMINGS,
    )
}
