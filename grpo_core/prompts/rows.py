"""From a raw row to a problem with its gold, or to the reason why it is none."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from grpo_core.config.data import PromptsConfig
from grpo_core.errors import DataContractError
from grpo_core.prompts.normalise import normalise_problem, problem_id
from grpo_core.prompts.readers import ABSENT, Absent, Defect, RawRow
from grpo_core.rewards.code.row_tests import read_tests
from grpo_core.rewards.verifier_names import BUILT_IN, CODE, MATH
from grpo_core.types import Split

CheckGold = Callable[[str, str | None], str | None]
"""(gold, answer_type) -> why it cannot be graded against, None when it can."""


@dataclass(frozen=True, slots=True)
class RowRules:
    """What ingest must know of grading.

    Args:
        check_gold: Refuses golds that the `math` verifier cannot grade against.
        default: Verifier of rows that name none: `math`, `code` or `function`.
        names: What a row may name as its verifier.
    """

    check_gold: CheckGold
    default: str = MATH
    names: tuple[str, ...] = BUILT_IN


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One row of the `prompts` table; the fields are its columns."""

    source: str
    row_number: int
    prompt_id: str | None = None
    split: Split | None = None
    text: str | None = None
    gold: str | None = None
    solution: str | None = None
    answer_type: str | None = None
    verifier: str | None = None
    tests: str | None = None
    data_source: str | None = None
    quarantine_reason: str | None = None
    duplicate_of: str | None = None

    def quarantined(self, defect: Defect, detail: str) -> "PromptRow":
        """The same row in quarantine."""
        return replace(self, quarantine_reason=defect.because(detail))


def read_problem(raw: RawRow, label: str, config: PromptsConfig, rules: RowRules) -> PromptRow:
    """Return the row with problem, gold and solution, quarantined at its first defect."""
    row = PromptRow(label, raw.number)
    if raw.reason:
        return replace(row, quarantine_reason=raw.reason)
    problem = _text(raw.get(config.problem_field))
    if isinstance(problem, _Bad):
        return _bad_field(row, problem, config.problem_field, Defect.MISSING_PROBLEM)
    if not normalise_problem(problem):
        return row.quarantined(Defect.EMPTY_PROBLEM, f"field {config.problem_field!r} is empty")
    row = replace(row, prompt_id=problem_id(problem))
    if len(problem) > config.max_characters:
        return _over_long(row, config.problem_field, problem, config)
    row = replace(row, text=problem)
    for read in (_read_names, _read_tests):
        row = read(row, raw, config, rules)
        if row.quarantine_reason:
            return row
    return _read_gold(row, raw, config, rules)


def _read_names(row: PromptRow, raw: RawRow, config: PromptsConfig, rules: RowRules) -> PromptRow:
    """Answer type, verifier and data source, which are texts or absent."""
    found: list[str | None] = []
    for name in (
        config.answer_type_field,
        config.mixture.verifier_field,
        config.mixture.source_field,
    ):
        value = raw.get(name) if name else None
        text = "" if value is None or value is ABSENT else _text(value)
        if isinstance(text, _Bad):
            return row.quarantined(Defect.WRONG_TYPE, f"field {name!r}: {text.detail}")
        found.append(text.strip() or None)
    answer_type, verifier, data_source = found
    row = replace(row, answer_type=answer_type, verifier=verifier, data_source=data_source)
    if verifier is not None and verifier not in rules.names:
        known = ", ".join(rules.names)
        return row.quarantined(
            Defect.UNKNOWN_VERIFIER, f"expected one of {known}, got {verifier!r}"
        )
    return row


def _read_tests(row: PromptRow, raw: RawRow, config: PromptsConfig, rules: RowRules) -> PromptRow:
    """Unit tests, as JSON text or as the lists and objects that it stands for."""
    value = raw.get(config.mixture.tests_field) if config.mixture.tests_field else None
    if value is not None and value is not ABSENT:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        row = replace(row, tests=text)
    if (row.verifier or rules.default) == CODE:
        try:
            read_tests(row.tests or "")
        except DataContractError as error:
            return row.quarantined(Defect.REFUSED_TESTS, error.message)
    return row


def _read_gold(row: PromptRow, raw: RawRow, config: PromptsConfig, rules: RowRules) -> PromptRow:
    """Gold and solution; only the `math` verifier needs a gold and can say what is a good one."""
    verifier = row.verifier or rules.default
    value = raw.get(config.answer_field) if config.answer_field else ABSENT
    if verifier != MATH and (value is None or value is ABSENT):
        return row
    answer = _text(value, numbers=not config.answer_marker)
    if isinstance(answer, _Bad):
        return _bad_field(row, answer, config.answer_field, Defect.MISSING_GOLD)
    if len(answer) > config.max_characters:
        return _over_long(row, config.answer_field, answer, config)
    if verifier == CODE or (verifier != MATH and config.answer_marker not in answer):
        return replace(row, gold=answer.strip() or None)
    row = _split_answer(row, answer, config)
    return _check_gold(row, config, rules.check_gold) if verifier == MATH else row


def _split_answer(row: PromptRow, answer: str, config: PromptsConfig) -> PromptRow:
    """Gold and solution: what stands after and before the marker's last occurrence."""
    marker = config.answer_marker
    if not marker:
        return replace(row, gold=answer.strip())
    solution, found, gold = answer.rpartition(marker)
    if not found and answer.strip():
        return row.quarantined(
            Defect.MISSING_MARKER, f"field {config.answer_field!r} holds no {marker!r}"
        )
    return replace(row, gold=gold.strip(), solution=solution.strip() or None)


def _check_gold(row: PromptRow, config: PromptsConfig, check: CheckGold) -> PromptRow:
    if row.quarantine_reason:
        return row
    if not row.gold:
        return replace(
            row.quarantined(Defect.EMPTY_GOLD, f"field {config.answer_field!r} gives no gold"),
            gold=None,
        )
    refusal = check(row.gold, row.answer_type)
    return row.quarantined(Defect.REFUSED_GOLD, refusal) if refusal else row


@dataclass(frozen=True, slots=True)
class _Bad:
    defect: Defect | None
    detail: str


def _text(value: object, *, numbers: bool = False) -> str | _Bad:
    """A field as text; a gold that is a whole field may also be a number."""
    if value is None or isinstance(value, Absent):
        return _Bad(None, "is absent" if isinstance(value, Absent) else "is null")
    if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    if not isinstance(value, str):
        return _Bad(Defect.WRONG_TYPE, f"expected text, got {type(value).__name__}")
    surrogate = next((char for char in value if "\ud800" <= char <= "\udfff"), "")
    if surrogate:
        return _Bad(Defect.UNDECODABLE, f"lone surrogate {surrogate!a} is not Unicode text")
    return value


def _bad_field(row: PromptRow, bad: _Bad, name: str, missing: Defect) -> PromptRow:
    if bad.defect is None:
        return row.quarantined(missing, f"field {name!r} {bad.detail}")
    return row.quarantined(bad.defect, f"field {name!r}: {bad.detail}")


def _over_long(row: PromptRow, name: str, text: str, config: PromptsConfig) -> PromptRow:
    return row.quarantined(
        Defect.OVER_LONG,
        f"field {name!r} has {len(text)} characters, the limit is {config.max_characters}",
    )
