"""Schemas of tables that tell how an artefact came about; they enter no digest."""

import pyarrow as pa

from grpo_core.store.table_spec import TableSpec, required

REF_READS = TableSpec(
    name="ref_reads",
    grain="one origin of the reference log-probs of one optimiser step; step 0 is stage ref-logp",
    schema=pa.schema(
        [
            required("phase", pa.int32()),
            required("step", pa.int64()),
            required("origin", pa.string()),
            required("num_rows", pa.int64()),
            required("num_tokens", pa.int64()),
            required("seconds", pa.float64()),
        ]
    ),
    sort=("phase", "step", "origin"),
    in_digest=False,
)

TIMINGS = TableSpec(
    name="timings",
    grain="one timed part of the making of an artefact",
    schema=pa.schema(
        [
            required("part", pa.string()),
            required("seconds", pa.float64()),
            required("tokens", pa.int64()),
            required("recorded_at", pa.timestamp("us", tz="UTC")),
            required("host", pa.string()),
        ]
    ),
    sort=("recorded_at", "part"),
    in_digest=False,
)
