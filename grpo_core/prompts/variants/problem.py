"""What variants are made from, what they are, and why there is none."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its worked solution.

    Args:
        prompt_id: Id of the problem; its variants keep it.
        text: The problem.
        gold: The gold answer.
        solution: The worked solution without the gold line; None when there is none.
        answer_type: As in the `prompts` table.
    """

    prompt_id: str
    text: str
    gold: str
    solution: str | None = None
    answer_type: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A changed problem with its own gold; fields as the columns of the `variants` table.

    Args:
        prompt_id: The parent problem.
        variant_id: Hash of the changed problem, made as a `prompt_id` is.
        kind: Which rewrite made it.
        text: The changed problem.
        gold: Its gold answer.
        solution: Its worked solution.
        gold_origin: How the gold was obtained.
        answer_type: The parent's.
        complexity_before: Digits handled by the operations of the parent's solution.
        complexity_after: The same of this solution.
        checks: What was verified.
    """

    prompt_id: str
    variant_id: str
    kind: str
    text: str
    gold: str
    solution: str
    gold_origin: str
    answer_type: str | None
    complexity_before: float
    complexity_after: float
    checks: tuple[str, ...]


class RefusalError(Exception):
    """A problem cannot be rewritten with certainty.

    Args:
        reason: A fixed phrase, so that refusals can be counted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
