"""The `bands` table: how hard each prompt is for one policy, from the samples graded so far."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.config.data import BandsConfig
from grpo_core.errors import DataContractError
from grpo_core.prompts.columns import require_columns, to_table
from grpo_core.prompts.pass_rates import (
    as_written,
    band_of,
    informative_group_rate,
    wilson_interval,
)
from grpo_core.rewards.verdict import Label, reward_of
from grpo_core.store.schemas import BANDS
from grpo_core.types import Band, FinishReason

__all__ = [
    "Counts",
    "band_of",
    "compute_bands",
    "count_labels",
    "informative_group_rate",
    "reband",
    "wilson_interval",
]

_UNDECIDED = tuple(label.value for label in Label if reward_of(label) is None)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the samples of one prompt came to.

    Args:
        n: Samples.
        num_correct: Passed; `num_wrong`, `num_unparseable` and `num_hedged` did not.
        num_wrong: Wrong answers.
        num_unparseable: No answer found.
        num_hedged: Several answers offered.
        num_null: Without a verdict (timeout, error, gold_unparseable).
        num_truncated: Ended by the budget, whatever the verdict.
    """

    n: int
    num_correct: int
    num_wrong: int
    num_unparseable: int
    num_hedged: int
    num_null: int
    num_truncated: int

    @property
    def num_decided(self) -> int:
        """Samples with a verdict: the denominator of the pass rate."""
        return self.n - self.num_null


def compute_bands(
    samples: pa.Table,
    verdicts: pa.Table,
    config: BandsConfig,
    group_size: int,
    phase: int,
    *,
    longer_budget_next: bool,
) -> pa.Table:
    """Return the `bands` table of prompts from their graded samples.

    Args:
        samples: Columns prompt_id, sample_index, finish_reason; one row a sample.
        verdicts: Columns prompt_id, sample_index, label, reward_raw; one row for each sample.
        config: Edges, weights, confidence and the rule for truncated prompts.
        group_size: G of the planned training groups.
        phase: 0 for the prefilter.
        longer_budget_next: Whether the phase to come allows longer completions than the samples
            had.

    Raises:
        DataContractError: Samples and verdicts do not match one to one, a label is unknown, or a
            reward is null for a decided label or the reverse.
    """
    require_columns(samples, "samples", ("prompt_id", "sample_index", "finish_reason"))
    require_columns(verdicts, "verdicts", ("prompt_id", "sample_index", "label", "reward_raw"))
    graded = _join_verdicts(samples, verdicts)
    _check_rewards(graded)
    counts = count_labels(graded)
    rows = [
        _band_row(prompt_id, counts[prompt_id], config, group_size, phase, longer_budget_next)
        for prompt_id in sorted(counts)
    ]
    return to_table(rows, BANDS)


def reband(
    previous: pa.Table,
    rollouts: pa.Table,
    config: BandsConfig,
    group_size: int,
    phase: int,
    *,
    longer_budget_next: bool,
) -> pa.Table:
    """Return the bands after a training phase.

    A prompt with rollouts of its original problem is banded by these alone (all suffixes count,
    variants do not). Any other prompt keeps its counts; its band can change only because the next
    budget is longer than the one that its samples were cut off at.

    Args:
        previous: The `bands` table that the phase drew from.
        rollouts: The phase's rollouts: columns prompt_id, variant_id, label, finish_reason.
        config: As in `compute_bands`.
        group_size: G.
        phase: The phase that the rollouts come from, from 1; set on every row.
        longer_budget_next: Whether the phase to come allows longer completions.

    Raises:
        DataContractError: A rollout's prompt has no row in `previous`, or a label is unknown.
    """
    require_columns(rollouts, "rollouts", ("prompt_id", "variant_id", "label", "finish_reason"))
    counts = count_labels(rollouts.filter(pc.is_null(rollouts["variant_id"])))
    before = {
        row["prompt_id"]: Counts(**{name: row[name] for name in Counts.__slots__})
        for row in previous.to_pylist()
    }
    strangers = sorted(set(counts) - set(before))
    if strangers:
        raise DataContractError(
            f"re-banding after phase {phase}: expected rollouts of prompts in bands, got "
            f"{len(strangers)} others, first {strangers[0]}"
        )
    rows = [
        _band_row(prompt_id, known, config, group_size, phase, longer_budget_next)
        for prompt_id, known in sorted((before | counts).items())
    ]
    return to_table(rows, BANDS)


def count_labels(graded: pa.Table) -> dict[str, Counts]:
    """Return prompt_id -> counts of rows with columns prompt_id, label, finish_reason.

    Raises:
        DataContractError: A label or finish reason is none of the product's.
    """
    _check_words(graded, "label", [label.value for label in Label])
    _check_words(graded, "finish_reason", [reason.value for reason in FinishReason])
    label = graded["label"]
    flags = {
        "num_correct": pc.equal(label, Label.CORRECT.value),
        "num_wrong": pc.equal(label, Label.WRONG.value),
        "num_unparseable": pc.equal(label, Label.UNPARSEABLE.value),
        "num_hedged": pc.equal(label, Label.HEDGED.value),
        "num_null": pc.is_in(label, pa.array(_UNDECIDED)),
        "num_truncated": pc.equal(graded["finish_reason"], FinishReason.LENGTH.value),
    }
    columns = {name: flag.cast(pa.int32()) for name, flag in flags.items()}
    table = pa.table({"prompt_id": graded["prompt_id"], **columns})
    totals = table.group_by("prompt_id").aggregate(
        [("prompt_id", "count"), *((name, "sum") for name in columns)]
    )
    return {
        row["prompt_id"]: Counts(
            n=row["prompt_id_count"], **{name: row[f"{name}_sum"] for name in columns}
        )
        for row in totals.to_pylist()
    }


def _band_row(
    prompt_id: str,
    counts: Counts,
    config: BandsConfig,
    group_size: int,
    phase: int,
    longer_budget_next: bool,
) -> dict[str, Any]:
    c, m = counts.num_correct, counts.num_decided
    band = band_of(c, m, config)
    if longer_budget_next and _was_cut_off(counts, config):
        band = Band.UNKNOWN
    low, high = wilson_interval(c, m, config.confidence) if m else (None, None)
    return {
        "prompt_id": prompt_id,
        "phase": phase,
        **{name: getattr(counts, name) for name in Counts.__slots__},
        "pass_rate": c / m if m else None,
        "pass_rate_low": low,
        "pass_rate_high": high,
        "band": band.value,
        "weight": float(getattr(config, f"weight_{band.value}")),
        "informative_group_rate": informative_group_rate(c, m, group_size) if m else None,
        "group_size": group_size,
    }


def _was_cut_off(counts: Counts, config: BandsConfig) -> bool:
    """Never solved, and mostly for want of tokens: not shown to be too hard."""
    share = Fraction(counts.num_truncated, counts.n)
    return counts.num_correct == 0 and share >= as_written(config.truncated_share)


def _join_verdicts(samples: pa.Table, verdicts: pa.Table) -> pa.Table:
    keys = ["prompt_id", "sample_index"]
    for name, table in (("samples", samples), ("verdicts", verdicts)):
        distinct = table.group_by(keys).aggregate([]).num_rows
        if distinct != table.num_rows:
            raise DataContractError(
                f"{name}: expected one row a sample, got {table.num_rows} rows of {distinct}"
            )
    graded = verdicts.select([*keys, "label", "reward_raw"]).join(
        samples.select([*keys, "finish_reason"]), keys, join_type="inner"
    )
    if not graded.num_rows == samples.num_rows == verdicts.num_rows:
        raise DataContractError(
            f"bands: expected one verdict for each sample, got {samples.num_rows} samples, "
            f"{verdicts.num_rows} verdicts, {graded.num_rows} in common",
            "grade the samples of this artefact again",
        )
    return graded


def _check_rewards(graded: pa.Table) -> None:
    undecided = pc.is_in(graded["label"], pa.array(_UNDECIDED))
    odd = graded.filter(pc.not_equal(undecided, pc.is_null(graded["reward_raw"])))
    if odd.num_rows:
        row = odd.slice(0, 1).to_pylist()[0]
        raise DataContractError(
            f"verdicts: expected a null reward_raw exactly for {', '.join(_UNDECIDED)}, got "
            f"{row['reward_raw']} for {row['label']} (prompt {row['prompt_id']}, "
            f"sample {row['sample_index']}; {odd.num_rows} such rows)"
        )


def _check_words(table: pa.Table, column: str, known: list[str]) -> None:
    odd = set(table[column].unique().to_pylist()) - set(known)
    if odd:
        raise DataContractError(f"{column}: expected one of {known}, got {sorted(map(str, odd))}")
