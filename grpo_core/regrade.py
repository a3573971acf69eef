"""`grpo regrade`: saved completions under the present verifier; nothing is sampled or changed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from grpo_core.config import RunConfig
from grpo_core.errors import StageInputError
from grpo_core.prompts.bands import compute_bands, reband
from grpo_core.rewards.functions.grading import PROBLEM_FIELDS
from grpo_core.rewards.grader import Grader
from grpo_core.rewards.rows import grade_rows, grader_rules
from grpo_core.store.catalog import Catalog
from grpo_core.store.relations import REGRADED_TABLES
from grpo_core.store.warehouse import Warehouse

Row = dict[str, Any]
_MAX_ROWS = 4096
_JUDGED = ("stage", "phase", "prompt_id", "variant_id", "sample_index", "finish_reason")


@contextmanager
def regrade(catalog: Catalog, run: str, config: RunConfig) -> Iterator[Warehouse]:
    """Grade every completion of a run again; the queries of `sql/regrade` then have rows.

    Args:
        catalog: What the run uses.
        run: Its name.
        config: Who grades, and how bands are made.

    Raises:
        StageInputError: The run has no graded completion.
    """
    with Warehouse(catalog) as stored, Grader(grader_rules(config)) as grader:
        pieces, judged = [], []
        for rows in _portions(stored, run):
            piece, after = _graded_again(grader, rows)
            pieces.append(piece)
            judged += after
        before = stored.run_regrade("bands_to_regrade", {"run": run}).dicts()
    if not pieces:
        raise StageInputError(
            f"run {run!r} has no graded completions", "run the prefilter: grpo run prefilter"
        )
    bands = pa.Table.from_pylist(
        list(_changed_bands(before, judged, config)), REGRADED_TABLES["regraded_bands"]
    )
    tables = {"regraded": pa.concat_tables(pieces), "regraded_bands": bands}
    with Warehouse(catalog, regraded=tables) as warehouse:
        yield warehouse


def _portions(warehouse: Warehouse, run: str) -> Iterator[list[Row]]:
    portion: list[Row] = []
    for batch in warehouse.run_regrade("completions_to_regrade", {"run": run}).batches():
        portion += batch.to_pylist()
        if len(portion) >= _MAX_ROWS:
            yield portion
            portion = []
    if portion:
        yield portion


def _graded_again(grader: Grader, rows: list[Row]) -> tuple[pa.Table, list[Row]]:
    """The `regraded` rows of a portion, and what bands are made from."""
    problems = [
        {name: row.get(name) for name in PROBLEM_FIELDS}
        | {"text": row["problem_text"], "source": row["data_source"]}
        for row in rows
    ]
    verdicts = grade_rows(grader, [row["completion_text"] for row in rows], problems)
    regraded, judged = [], []
    for row, verdict in zip(rows, verdicts, strict=True):
        is_same = (row["label"], row["reward_raw"]) == (verdict.label.value, verdict.reward_raw)
        after = {
            "label_before": row["label"],
            "label_after": verdict.label.value,
            "reward_before": row["reward_raw"],
            "reward_after": verdict.reward_raw,
            "extracted_before": row["extracted"],
            "extracted_after": verdict.extracted,
            "reason": verdict.reason,
            "completion_text": None if is_same else row["completion_text"],
        }
        regraded.append(row | after)
        judged.append(
            {name: row[name] for name in _JUDGED}
            | {"label": verdict.label.value, "reward_raw": verdict.reward_raw}
        )
    return pa.Table.from_pylist(regraded, REGRADED_TABLES["regraded"]), judged


def _changed_bands(before: list[Row], judged: list[Row], config: RunConfig) -> Iterator[Row]:
    """Every stored band beside the one under the present verifier, phase by phase."""
    stored = {(row["phase"], row["prompt_id"]): row for row in before}
    bands: pa.Table | None = None
    for phase in sorted({phase for phase, _ in stored}):
        rows = [row for row in judged if row["phase"] == phase]
        bands = _bands(phase, rows, bands, config)
        for band in bands.to_pylist():
            old: Mapping[str, Any] = stored.get((phase, band["prompt_id"]), {})
            yield {
                "phase": phase,
                "prompt_id": band["prompt_id"],
                "band_before": old.get("band"),
                "band_after": band["band"],
                "pass_rate_before": old.get("pass_rate"),
                "pass_rate_after": band["pass_rate"],
            }


def _bands(phase: int, rows: list[Row], previous: pa.Table | None, config: RunConfig) -> pa.Table:
    size = config.train.group_size
    if phase == 0 or previous is None:
        samples = _table([row for row in rows if row["stage"] == "prefilter"])
        return compute_bands(samples, samples, config.bands, size, phase, longer_budget_next=False)
    rollouts = _table([row for row in rows if row["stage"] == "train"])
    is_longer = phase < len(config.train.phases)
    return reband(previous, rollouts, config.bands, size, phase, longer_budget_next=is_longer)


def _table(rows: list[Row]) -> pa.Table:
    names = ("prompt_id", "variant_id", "sample_index", "label", "reward_raw", "finish_reason")
    types = (pa.string(), pa.string(), pa.int32(), pa.string(), pa.float64(), pa.string())
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)
