"""`grpo lake restore`: records of a run, and reference rows that no cache has, made again."""

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.config import RunConfig, stored_config
from grpo_core.errors import ArtifactError
from grpo_core.planning.externals import digest_externals
from grpo_core.policy.origins import Scorer
from grpo_core.policy.reference import Reference
from grpo_core.stages.devices import device_lock
from grpo_core.store.artifacts import Artifact
from grpo_core.store.exchange import latest_pins
from grpo_core.store.lake import Lake
from grpo_core.store.locks import hold_or_refuse
from grpo_core.store.ref_rows import Fingerprint, RefRow
from grpo_core.store.ref_usage import caches_of, judged_rows, missing_rows, open_cache
from grpo_core.store.run_mending import mend_attempts, torn_attempts
from grpo_core.store.run_records import read_run
from grpo_core.types import Kind


def _wait_silently(holder: str) -> None:
    """Tell nobody for whom the device is waited."""


_TOKENS = ["prompt_token_ids", "completion_token_ids", "temperature"]


def restore_records(lake: Lake, run: str) -> list[str]:
    """Make damaged records of a run's attempts again; returns a line on each.

    Raises:
        ConfigError: There is no such run.
        ArtifactError: Run.json is damaged too.
        RunBusyError: There are some, and the run is at work, or the lake is being cleaned.
    """
    directory = lake.existing_run(run)
    if not torn_attempts(directory):
        return []
    who = f"grpo lake restore of run {run!r}"
    with lake.in_use(who), hold_or_refuse(lake.lock_path(f"run-{run}"), who, what=f"run {run!r}"):
        return mend_attempts(directory)


def restore_rows(lake: Lake, run: str, *, on_wait: Callable[[str], None] = _wait_silently) -> int:
    """Score what is missing of the rows that a run uses now; returns how many were scored.

    Every part of the caches that the run uses is decoded first, and set aside where it is damaged.
    Takes its turn on a GPU, as a stage does.

    Args:
        lake: Where the run is.
        run: Run name.
        on_wait: Called with who works on the device, before waiting for it.

    Raises:
        ConfigError: There is no such run.
        ArtifactError: An artefact is damaged, the reference is no longer the one that the run was
            trained with, or no artefact has the tokens of a row.
        RunBusyError: The lake is being cleaned.
    """
    config = stored_config(lake.existing_run(run))
    with lake.in_use(f"restore of run {run!r}"):
        artifacts = [lake.store.generation(*pin) for pin in sorted(latest_pins(lake, [run]))]
        _set_aside_damaged(lake, artifacts)
        missing: dict[str, set[str]] = {}
        for artifact in artifacts:
            for name, keys in missing_rows(lake, artifact).items():
                missing.setdefault(name, set()).update(keys)
        if not missing:
            return 0
        reference = _reference(lake, run, config, missing)
        wanted = set().union(*missing.values())
        rows = _find(artifacts, wanted)
        if lost := wanted - rows.keys():
            raise ArtifactError(f"run {run!r}: no artefact has the tokens of row {min(lost)}")
        who = f"grpo lake restore of run {run!r}"
        with device_lock(config, Kind.REF_LOGP, who, on_wait=on_wait, on_poll=lambda: None):
            reference.read(list(rows.values()))
    return reference.misses


def _set_aside_damaged(lake: Lake, artifacts: Iterable[Artifact]) -> None:
    names = {name for artifact in artifacts for name in judged_rows(lake, artifact)}
    for directory in sorted({path for name in names for path in caches_of(lake, name)}):
        open_cache(directory).set_aside_damaged()


def _reference(lake: Lake, run: str, config: RunConfig, names: Iterable[str]) -> Reference:
    """The run's reference, proved to be the one whose rows are missing."""
    externals = digest_externals(config, lake.digests)
    weights, tokenizer = externals.reference, externals.tokenizer
    now = Fingerprint(weights, tokenizer, config.model.dtype, config.model.attention).digest
    if other := sorted(set(names) - {now, ""}):
        raise ArtifactError(
            f"run {run!r} rests on rows of reference {', '.join(other)}, its configuration names "
            f"reference {now} now",
            hint="put model and tokenizer back as they were",
        )
    scorer = Scorer(run, read_run(lake.run_directory(run))["attempt"], "restore", now)
    return Reference.open(config, lake.root, weights=weights, tokenizer=tokenizer, scorer=scorer)


def _find(artifacts: Iterable[Artifact], wanted: set[str]) -> dict[str, RefRow]:
    """Key → row of the wanted rows, from rollouts and persisted samples."""
    found: dict[str, RefRow] = {}
    for artifact in artifacts:
        tables = artifact.manifest["tables"]
        if "rollouts" in tables:
            rollouts = artifact.table("rollouts", [*_TOKENS, "ref_row_key"])
            is_wanted = pc.is_in(rollouts.column("ref_row_key"), pa.array(sorted(wanted)))
            found |= _rows(rollouts.filter(is_wanted), wanted)
        if "samples" in tables and wanted - found.keys():
            found |= _rows(artifact.table("samples", _TOKENS), wanted)
    return found


def _rows(table: pa.Table, wanted: set[str]) -> dict[str, RefRow]:
    rows = {}
    for batch in table.to_batches(max_chunksize=1024):
        for prompt, completion, temperature in zip(
            *(batch.column(name).to_pylist() for name in _TOKENS), strict=True
        ):
            row = RefRow(tuple(prompt), tuple(completion), temperature)
            if row.key in wanted:
                rows[row.key] = row
    return rows
