"""`grpo grade --selftest`: a verifier on built-in cases that it must accept or refuse.

`data/rewards/selftest.jsonl` holds them: `accept` cases are right answers in the usual forms,
`reject` cases are wrong ones, `exploit` cases are what models find when a grader is careless.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from grpo_core.paths import PROJECT_ROOT
from grpo_core.rewards.functions.reference import find_function
from grpo_core.rewards.grader import Grader, GraderRules
from grpo_core.rewards.verdict import Label, Verdict
from grpo_core.rewards.verifier_names import BUILT_IN, MATH

GROUPS: Final = ("accept", "reject", "exploit")
_CASES: Final = PROJECT_ROOT / "data" / "rewards" / "selftest.jsonl"


@dataclass(frozen=True, slots=True)
class Tried:
    """One case and its verdict.

    Args:
        case: `group`, `kind`, `completion`, `gold`.
        verdict: What the verifier said.
    """

    case: Mapping[str, Any]
    verdict: Verdict

    @property
    def is_right(self) -> bool:
        """Whether a right answer was paid, or a wrong one decided and not paid."""
        if self.case["group"] == "accept":
            return self.verdict.label is Label.CORRECT
        return self.verdict.label is not Label.CORRECT


def selftest(function: str, rules: GraderRules | None = None) -> list[Tried]:
    """Grade every built-in case with one verifier.

    Args:
        function: `math`, `code`, `module:function` or `file.py:function`.
        rules: Limits and threshold; None means defaults.

    Raises:
        ConfigError: There is no such function.
        ServiceError: It cannot be imported.
    """
    rules = rules or GraderRules()
    if function not in BUILT_IN:
        find_function(function)
    family = function if function in BUILT_IN else MATH
    rows = [json.loads(line) for line in _CASES.read_text("utf-8").splitlines()]
    cases = [{**row, "verifier": None} for row in rows if row["verifier"] == family]
    with Grader(replace(rules, function=function)) as grader:
        verdicts = grader.grade([case["completion"] for case in cases], cases)
    return [Tried(case, verdict) for case, verdict in zip(cases, verdicts, strict=True)]


def pattern(tried: Sequence[Tried]) -> str:
    """What is wrong with the verifier as a whole, empty when nothing is."""
    paid = [item.verdict.label is Label.CORRECT for item in tried]
    if all(item.verdict.reward_raw is None for item in tried):
        return "always fails: it decided nothing"
    if all(paid):
        return "is constant: it pays every answer"
    if not any(paid):
        return "is constant: it pays nothing"
    if not any(item.is_right for item in tried if item.case["group"] != "exploit"):
        return "is inverted: it pays the wrong answers and not the right ones"
    return ""
