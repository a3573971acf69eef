"""Stage ref-logp: reference log-probs of the persisted samples that phase 1 will draw."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.policy.reference import Reference, RefRead
from grpo_core.stages.context import Made, MakeContext
from grpo_core.store.ref_rows import RefRow
from grpo_core.store.schemas import REF_READS, REF_RECEIPTS
from grpo_core.training.first_batch import pick_first_batch

_COLUMNS = [
    "prompt_id",
    "sample_index",
    "prompt_token_ids",
    "completion_token_ids",
    "temperature",
]


def make_receipt(context: MakeContext) -> Made:
    """Score what the first rollout batch will draw; the log-probs go to the cache.

    The artefact is a receipt of rows in the cache. Without a KL term or its logging, or without
    persisted samples in the first batch, there is nothing to score and the receipt is empty.
    """
    config = context.config
    bands = context.inputs["bands"].table("bands")
    groups = pick_first_batch(bands, config) if context.node.fields["needs_reference"] else []
    if not groups:
        context.note("nothing to score: phase 1 draws no persisted sample that needs it")
        return Made(
            tables={
                "ref_receipts": REF_RECEIPTS.schema.empty_table(),
                "ref_reads": REF_READS.schema.empty_table(),
            }
        )
    samples = picked_samples(
        context.inputs["samples"].table("samples", _COLUMNS),
        [(group.prompt_id, index) for group in groups for index in group.sample_indices],
    )
    reference = Reference.open(
        config,
        context.lake.root,
        weights=context.node.externals["reference"],
        tokenizer=context.node.externals["tokenizer"],
        scorer=context.scorer,
    )
    rows = [
        RefRow(
            tuple(row["prompt_token_ids"]), tuple(row["completion_token_ids"]), row["temperature"]
        )
        for row in samples.to_pylist()
    ]
    with context.timings.part("score"):
        read = reference.read(rows)
    context.report(len(rows), len(rows), "samples")
    receipt = {
        "row_key": [row.key for row in rows],
        "prompt_id": samples.column("prompt_id"),
        "sample_index": samples.column("sample_index"),
        "fingerprint": [reference.cache.fingerprint.digest] * len(rows),
        "num_completion_tokens": [len(row.completion_token_ids) for row in rows],
        "ref_logprob_sum": [float(values.sum(dtype=np.float64)) for values in read.logprobs],
    }
    return Made(
        tables={
            "ref_receipts": pa.Table.from_pydict(receipt, schema=REF_RECEIPTS.schema),
            "ref_reads": _reads(rows, read),
        },
        figures={"hits": reference.hits, "computed": reference.misses},
    )


def _reads(rows: Sequence[RefRow], read: RefRead) -> pa.Table:
    """Where the log-probs came from, as step 0 of phase 0."""
    columns = {"origin": [str(origin) for origin in read.origins], "seconds": read.seconds}
    lengths = [len(row.completion_token_ids) for row in rows]
    table = pa.table({**columns, "num_tokens": pa.array(lengths, pa.int64())})
    counted = table.group_by("origin").aggregate(
        [("origin", "count"), ("num_tokens", "sum"), ("seconds", "sum")]
    )
    zeros = [0] * counted.num_rows
    return pa.table(
        {
            "phase": pa.array(zeros, pa.int32()),
            "step": pa.array(zeros, pa.int64()),
            "origin": counted.column("origin"),
            "num_rows": counted.column("origin_count"),
            "num_tokens": counted.column("num_tokens_sum"),
            "seconds": counted.column("seconds_sum"),
        }
    )


def picked_samples(samples: pa.Table, picked: list[tuple[str, int]]) -> pa.Table:
    """Rows of the picked (prompt_id, sample_index) pairs, in the order of the pairs."""
    wanted = pa.table(
        {
            "prompt_id": pa.array([prompt_id for prompt_id, _ in picked], pa.string()),
            "sample_index": pa.array([index for _, index in picked], pa.int32()),
            "order": pa.array(range(len(picked)), pa.int64()),
        }
    )
    rows = pa.array(range(samples.num_rows), pa.int64())
    keys = samples.select(["prompt_id", "sample_index"]).append_column("row", rows)
    joined = wanted.join(keys, ["prompt_id", "sample_index"], join_type="inner").sort_by("order")
    return samples.take(pc.cast(joined.column("row"), pa.int64()))
