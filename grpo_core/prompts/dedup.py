"""One row for each problem: contradictions out, held-out problems out of train, duplicates linked.

Rows are linked by `prompt_id`, the hash of the normalised problem. All functions take and return
rows in reading order and leave quarantined rows alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from grpo_core.prompts.normalise import gold_value
from grpo_core.prompts.readers import Defect
from grpo_core.prompts.rows import PromptRow
from grpo_core.types import Split

_PRECEDENCE = (Split.TEST, Split.VALIDATION, Split.TRAIN)
"""A problem in several splits stays in the first of these."""


def link_duplicates(rows: Sequence[PromptRow]) -> list[PromptRow]:
    """Return the rows with each problem usable in one row at most.

    - All rows of a problem whose golds differ in value are quarantined (`contradictory_gold`).
    - Rows of a problem that a more protected split holds are linked and quarantined (`held_out`).
    - Further rows of a problem in one split are linked: `duplicate_of` names the problem of the
      first row.
    """
    by_problem: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.quarantine_reason is None and row.prompt_id is not None:
            by_problem[row.prompt_id].append(index)
    linked = list(rows)
    for indices in by_problem.values():
        if len(indices) > 1:
            for index, row in zip(indices, _resolve([rows[i] for i in indices]), strict=True):
                linked[index] = row
    return linked


def _resolve(same: Sequence[PromptRow]) -> list[PromptRow]:
    golds = {gold_value(row.gold or ""): row for row in same}
    if len(golds) > 1:
        detail = f"golds of the same problem differ: {_places(golds.values())}"
        return [row.quarantined(Defect.CONTRADICTORY_GOLD, detail) for row in same]
    first = min(same, key=lambda row: _PRECEDENCE.index(row.split or Split.TRAIN))
    return [row if row is first else _link(row, first) for row in same]


def _link(row: PromptRow, first: PromptRow) -> PromptRow:
    linked = replace(row, duplicate_of=first.prompt_id)
    if row.split is first.split or first.split is None:
        return linked
    return linked.quarantined(
        Defect.HELD_OUT,
        f"the same problem is row {first.row_number} of {first.source}, split {first.split.value}",
    )


def _places(rows: Iterable[PromptRow]) -> str:
    return "; ".join(f"{row.gold} in row {row.row_number} of {row.source}" for row in rows)
