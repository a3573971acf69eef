"""What a table of the lake is, and the columns that several tables share."""

from dataclasses import dataclass

import pyarrow as pa

_TOKEN_IDS = pa.list_(pa.int32())
_LOGPROBS = pa.list_(pa.float32())


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


CLOCKS = ("grading_seconds",)
"""Clock columns of graded completions."""


def required(name: str, kind: pa.DataType) -> pa.Field:
    """A column without nulls."""
    return pa.field(name, kind, nullable=False)


def logprob_fields(prefix: str, *, nullable: bool = False) -> list[pa.Field]:
    """The list and its per-row scalars."""
    return [
        pa.field(f"{prefix}_logprobs", _LOGPROBS, nullable=nullable),
        pa.field(f"{prefix}_logprob_sum", pa.float64(), nullable=nullable),
        pa.field(f"{prefix}_logprob_min", pa.float32(), nullable=nullable),
        pa.field(f"{prefix}_logprob_max", pa.float32(), nullable=nullable),
        pa.field(f"{prefix}_logprob_nonfinite", pa.int32(), nullable=nullable),
    ]


def completion_fields() -> list[pa.Field]:
    """A completion with its sampling metadata, as the sampler gave it."""
    return [
        required("policy", pa.string()),
        required("prompt_token_ids", _TOKEN_IDS),
        required("num_prompt_tokens", pa.int32()),
        required("completion_token_ids", _TOKEN_IDS),
        required("num_completion_tokens", pa.int32()),
        required("text", pa.string()),
        required("temperature", pa.float64()),
        required("max_completion_tokens", pa.int32()),
        required("finish_reason", pa.string()),
        *logprob_fields("sampling"),
    ]


def verdict_fields() -> list[pa.Field]:
    """A graded completion; `reward_raw` is null for timeout, error and gold_unparseable.

    `confidence` is null where the verifier does not say how sure it is; `grading_seconds` is a
    clock and in no digest, see `CLOCKS`.
    """
    return [
        required("label", pa.string()),
        pa.field("extracted", pa.string()),
        required("candidates", pa.list_(pa.string())),
        required("reason", pa.string()),
        pa.field("reward_raw", pa.float64()),
        required("verifier_version", pa.int32()),
        required("verifier", pa.string()),
        pa.field("confidence", pa.float64()),
        pa.field("share_passed", pa.float64()),
        pa.field("grading_seconds", pa.float64()),
    ]
