"""Going on from a shorter phase: raising only `max_steps` repeats no step.

Draws, seeds and schedules depend on the step alone, so the steps of the shorter phase are the first
steps of the longer one, bit for bit; only the validation at its end is not due in the longer one.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.errors import ArtifactError
from grpo_core.stages.context import MakeContext
from grpo_core.store.artifacts import Artifact, check_files, read_artifact
from grpo_core.training.state import CHECKPOINT, STATE

_LENGTH = "phase.max_steps"


def adopt_shorter_phase(context: MakeContext, first_step: int) -> None:
    """Turn the longest equal but shorter phase of the lake into work in progress of this one."""
    shorter = _longest_shorter(context)
    if shorter is None:
        return
    train = context.config.train
    per_batch = train.updates_per_rollout * train.epochs_per_rollout
    steps = int(shorter.manifest["payload"]["fields"][_LENGTH])
    last_step = first_step + steps
    for batch in range(steps // per_batch):
        low = first_step + batch * per_batch
        for table in ("rollouts", "steps", "events", "ref_reads"):
            rows = shorter.table(table)
            number = rows.column("step").to_numpy()
            unit = rows.filter(pa.array((number > low) & (number <= low + per_batch)))
            if table == "rollouts":
                unit = _renamed_policy(unit, shorter.key, context.key)
            if table == "steps":
                unit = _without_final_validation(unit, last_step, train.validate_every_steps)
            context.partial.write(table, batch, unit)
    context.partial.link_directory(
        f"state-{last_step:06d}",
        {CHECKPOINT: shorter.directory(CHECKPOINT), STATE: shorter.directory(STATE)},
    )
    context.note(f"continues the {steps} steps of artefact {shorter.key[:12]}")


def _longest_shorter(context: MakeContext) -> Artifact | None:
    wanted = context.node.fields[_LENGTH]
    others = {k: v for k, v in _fields(context.node.fields).items() if k != _LENGTH}
    mine = context.node.payload(
        {role: a.aspect(context.node.inputs[role].aspect) for role, a in context.inputs.items()}
    )
    best: Artifact | None = None
    for path in context.lake.generations_of(context.node.stage):
        try:
            artifact = read_artifact(path)
        except ArtifactError as error:
            context.note(f"not continued from a damaged artefact: {error.message}")
            continue
        payload = artifact.manifest["payload"]
        fields = dict(payload["fields"])
        length = fields.pop(_LENGTH, wanted)
        is_equal = (
            payload["kind"] == mine["kind"]
            and payload["version"] == mine["version"]
            and payload["inputs"] == mine["inputs"]
            and fields == others
        )
        is_longer = best is None or length > best.manifest["payload"]["fields"][_LENGTH]
        if is_equal and length < wanted and is_longer and _is_whole(context, artifact):
            best = artifact
    return best


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as they look after a round trip through JSON."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}


def _is_whole(context: MakeContext, artifact: Artifact) -> bool:
    try:
        check_files(artifact, context.lake.digests)
    except ArtifactError as error:
        context.note(f"not continued from a damaged artefact: {error.message}")
        return False
    return True


def _renamed_policy(unit: pa.Table, before: str, after: str) -> pa.Table:
    """The policy's id names the phase by its key, which is another one now."""
    policy = unit.column_names.index("policy")
    renamed = pc.replace_substring(
        unit.column("policy"), pattern=f"{before}@", replacement=f"{after}@"
    )
    return unit.set_column(policy, unit.schema.field("policy"), renamed)


def _without_final_validation(unit: pa.Table, last_step: int, every: int) -> pa.Table:
    """Null where the shorter phase validated at its end and the longer one would not."""
    if every and last_step % every == 0:
        return unit
    rows = unit.to_pylist()
    for row in rows:
        if row["step"] == last_step:
            row["validation_pass_at_1"] = None
    return pa.Table.from_pylist(rows, schema=unit.schema)
