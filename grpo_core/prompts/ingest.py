"""Problem files in, one `prompts` table out: every row kept, defects and duplicates marked.

The three splits are disjoint by problem. A split without a file of its own is split off `source` by
a hash of the problem alone, so a problem keeps its split when rows are added or moved.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from grpo_core.config.data import PromptsConfig
from grpo_core.errors import ConfigError, DataContractError
from grpo_core.prompts.columns import to_table
from grpo_core.prompts.dedup import link_duplicates
from grpo_core.prompts.normalise import hash_fraction
from grpo_core.prompts.readers import Defect, read_rows
from grpo_core.prompts.rows import CheckGold, PromptRow, RowRules, read_problem
from grpo_core.prompts.sources import Member, resolve_members, source_paths
from grpo_core.rewards.verifier_names import BUILT_IN, MATH
from grpo_core.store.schemas import PROMPTS
from grpo_core.types import Split

__all__ = ["IngestResult", "IngestSummary", "active", "draw_limit", "ingest", "source_paths"]


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of the rows; `rows` is the sum of kept, quarantined and duplicates.

    Args:
        rows: Rows read.
        kept: Split -> usable rows.
        quarantined: First word of the reason -> rows, most frequent first.
        duplicates: Further rows of a problem within its split.
        split_method: How each split was made, in words.
    """

    rows: int
    kept: dict[str, int]
    quarantined: dict[str, int]
    duplicates: int
    split_method: str


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The `prompts` table and its summary."""

    table: pa.Table
    summary: IngestSummary


def ingest(
    config: PromptsConfig,
    *,
    base_directory: Path,
    check_gold: CheckGold,
    default_verifier: str = MATH,
    verifiers: Sequence[str] = BUILT_IN,
) -> IngestResult:
    """Return every row of the configured sources, checked, split and linked.

    Args:
        config: Sources, fields, fractions and limits.
        base_directory: Where relative source paths start.
        check_gold: (gold, answer_type) -> why it cannot be graded against, None when it can.
        default_verifier: Who grades rows that name none: `math`, `code` or `function`.
        verifiers: What a row may name as its verifier.

    Raises:
        ConfigError: The fractions leave nothing for train.
        DataContractError: A source is missing, unreadable or of an unknown format, lacks a
            configured field in all rows, or a split comes out empty.
    """
    members = resolve_members(config, base_directory)
    fractions = _hash_fractions(config, members)
    rules = RowRules(check_gold, default_verifier, tuple(verifiers))
    rows = []
    for member in members:
        for raw in read_rows(member, *_fields(config, member)):
            row = read_problem(raw, member.label, config, rules)
            rows.append(replace(row, split=_split_of(row, member.split, fractions)))
    rows = link_duplicates(rows)
    summary = _summarise(rows, _describe_splits(members, fractions))
    _refuse_empty(rows, members, fractions)
    return IngestResult(to_table([_to_row(row) for row in rows], PROMPTS), summary)


def _fields(config: PromptsConfig, member: Member) -> tuple[list[str], list[str]]:
    """Fields that a member must have, and those that only train must have."""
    mixture = config.mixture
    plain = (config.problem_field, config.answer_field, config.answer_type_field)
    further = (mixture.verifier_field, mixture.tests_field, mixture.source_field)
    needed, mixed = [field for field in plain if field], [field for field in further if field]
    return (needed + mixed, []) if member.split is Split.TRAIN else (needed, mixed)


def active(table: pa.Table, split: Split) -> pa.Table:
    """Return the usable rows of a split: neither quarantined nor duplicate, in table order."""
    usable = pc.and_(pc.is_null(table["quarantine_reason"]), pc.is_null(table["duplicate_of"]))
    return table.filter(pc.and_(usable, pc.equal(table["split"], split.value)))


def draw_limit(table: pa.Table, limit: int) -> pa.Table:
    """Return the first `limit` rows by `prompt_id`, which is a hash order; 0 means all.

    A larger limit draws a superset.
    """
    ordered = table.sort_by("prompt_id")
    return ordered.slice(0, limit) if limit else ordered


def _hash_fractions(config: PromptsConfig, members: Sequence[Member]) -> dict[Split, float]:
    """The share of train that goes to each split without a file of its own."""
    held = {member.split for member in members}
    fractions = {
        split: fraction
        for split, fraction in (
            (Split.TEST, config.test_fraction),
            (Split.VALIDATION, config.validation_fraction),
        )
        if split not in held and fraction > 0
    }
    if sum(fractions.values()) >= 1:
        raise ConfigError(
            "prompts.validation_fraction + prompts.test_fraction: expected a sum below 1, "
            f"got {sum(fractions.values()):g}",
            "lower them, so that problems are left to train on",
        )
    return fractions


def _split_of(row: PromptRow, split: Split, fractions: dict[Split, float]) -> Split | None:
    """The member's split, or the one that the problem's hash falls into; unknown without a problem.

    Each split owns an interval of the unit interval: test from 0 up, validation from 1 down, so
    that a change of one fraction moves no row of the other split.
    """
    if split is not Split.TRAIN or not fractions:
        return split
    if row.prompt_id is None:
        return None
    position = hash_fraction("split", row.prompt_id)
    if position < fractions.get(Split.TEST, 0.0):
        return Split.TEST
    if position >= 1.0 - fractions.get(Split.VALIDATION, 0.0):
        return Split.VALIDATION
    return Split.TRAIN


def _describe_splits(members: Sequence[Member], fractions: dict[Split, float]) -> str:
    parts = [f"{member.split.value}: rows of prompts.{member.label}" for member in members]
    parts += [
        f"{split.value}: {fraction:.1%} of prompts.source by hash of the problem"
        for split, fraction in fractions.items()
    ]
    return "; ".join(sorted(parts))


def _summarise(rows: Sequence[PromptRow], split_method: str) -> IngestSummary:
    kept: Counter[str] = Counter({split.value: 0 for split in Split})
    quarantined: Counter[str] = Counter()
    duplicates = 0
    for row in rows:
        if row.quarantine_reason:
            quarantined[row.quarantine_reason.split(":")[0]] += 1
        elif row.duplicate_of:
            duplicates += 1
        else:
            kept[str(row.split)] += 1
    return IngestSummary(
        len(rows), dict(kept), dict(quarantined.most_common()), duplicates, split_method
    )


def _refuse_empty(
    rows: Sequence[PromptRow], members: Sequence[Member], fractions: dict[Split, float]
) -> None:
    """Raise DataContractError for the first split without a usable row, with its file's story."""
    for split in sorted({member.split for member in members} | set(fractions)):
        if any(row.split is split and _is_usable(row) for row in rows):
            continue
        origin = Split.TRAIN if split in fractions else split
        member = next(member for member in members if member.split is origin)
        own = [row for row in rows if row.source == member.label]
        defects = [row for row in own if row.quarantine_reason]
        first = f"; row {defects[0].row_number}: {defects[0].quarantine_reason}" if defects else ""
        raise DataContractError(
            f"{', '.join(map(str, member.files))}: expected usable problems for the {split.value} "
            f"split, got 0 from {len(own)} rows, {len(defects)} of them in quarantine{first}",
            _hint_for_empty(own, defects, split, fractions),
        )


def _hint_for_empty(
    own: Sequence[PromptRow],
    defects: Sequence[PromptRow],
    split: Split,
    fractions: dict[Split, float],
) -> str:
    reasons = [row.quarantine_reason or "" for row in defects]
    if sum(reason.startswith(Defect.MISSING_MARKER) for reason in reasons) * 2 > len(own):
        return 'prompts.answer_marker="" takes the whole answer field as the gold'
    if split in fractions and len(defects) < len(own):
        return (
            f"the file is small: raise prompts.{split.value}_fraction (now {fractions[split]:g}) "
            f"or set prompts.{split.value}_source"
        )
    return "check the rows of this file against prompts.problem_field and prompts.answer_field"


def _is_usable(row: PromptRow) -> bool:
    return row.quarantine_reason is None and row.duplicate_of is None


def _to_row(row: PromptRow) -> dict[str, str | int | None]:
    return {name: getattr(row, name) for name in PromptRow.__slots__}
