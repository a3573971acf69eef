"""The verifier of each row: mathematics, unit tests, or a reward function of the user's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from grpo_core.errors import DataContractError
from grpo_core.rewards.agreement import agreement
from grpo_core.rewards.code.grading import CodeGrader
from grpo_core.rewards.functions.grading import FunctionGrader
from grpo_core.rewards.functions.reference import find_function
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.pool import (
    DEFAULT_MEMORY_BYTES,
    DEFAULT_TIMEOUT_SECONDS,
    VerifierPool,
    usable_cores,
)
from grpo_core.rewards.verdict import Verdict
from grpo_core.rewards.verifier_names import BUILT_IN, CODE, MATH

Problem = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GraderRules:
    """How rows are graded.

    Args:
        function: Verifier of rows that name none: `math`, `code`, or where a function stands.
        verifiers: Name that rows may use → where its function stands.
        options: The choices of `math`.
        pass_threshold: Least number of a reward function that counts as correct.
        workers: Most processes of each kind.
        timeout_seconds: Wall-clock limit of one comparison, or one call per sample.
        memory_bytes: Memory limit of a process.
        code_seconds: Wall-clock limit of all tests of one program.
        batch_rows: Most samples of one call per batch.
        batch_timeout_seconds: Wall-clock limit of one call per batch.
        second_opinions: Further verifiers that grade every row, see `agreement`.
    """

    function: str = MATH
    verifiers: Mapping[str, str] = field(default_factory=dict)
    options: VerifierOptions = field(default_factory=VerifierOptions)
    pass_threshold: float = 0.5
    workers: int = field(default_factory=usable_cores)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    code_seconds: float = 10.0
    batch_rows: int = 256
    batch_timeout_seconds: float = 600.0
    second_opinions: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What a row may name as its verifier."""
        return (*BUILT_IN, *self.verifiers)

    def verifier_of(self, problem: Problem) -> str:
        """Name of a row's verifier: its own, else the default's."""
        return str(problem.get("verifier") or self.function or MATH)


class _Grades(Protocol):
    def grade(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]: ...

    def close(self) -> None: ...


class Grader:
    """Grades rows, each by its own verifier; a context manager.

    Processes start when the first row needs them and end with the grader.

    Args:
        rules: How rows are graded.
    """

    def __init__(self, rules: GraderRules | None = None) -> None:
        self.rules = rules or GraderRules()
        self._graders: dict[str, _Grades] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def grade(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
        """Return one verdict a completion, order kept.

        Args:
            texts: Completions.
            problems: The row of each: `gold`, `answer_type`, `tests`, `verifier`, and whatever a
                reward function reads.

        Raises:
            DataContractError: A row names a verifier that there is none of.
            ConfigError: A reward function that cannot be found.
            ServiceError: A reward function that cannot be imported.
        """
        first = self._by_verifier(texts, problems, [self.rules.verifier_of(p) for p in problems])
        if not self.rules.second_opinions:
            return first
        opinions = [
            self._by_verifier(texts, problems, [name] * len(problems))
            for name in self.rules.second_opinions
        ]
        return [agreement(verdicts) for verdicts in zip(first, *opinions, strict=True)]

    def _by_verifier(
        self, texts: Sequence[str], problems: Sequence[Problem], names: Sequence[str]
    ) -> list[Verdict]:
        places: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            places.setdefault(name, []).append(index)
        verdicts: dict[int, Verdict] = {}
        for name, indices in places.items():
            graded = self._grader(name).grade(
                [texts[index] for index in indices], [problems[index] for index in indices]
            )
            verdicts |= zip(indices, graded, strict=True)
        return [verdicts[index] for index in range(len(problems))]

    def _grader(self, name: str) -> _Grades:
        if name not in self._graders:
            self._graders[name] = self._make(name)
        return self._graders[name]

    def _make(self, name: str) -> _Grades:
        rules = self.rules
        if name == MATH:
            return _MathGrader(rules)
        if name == CODE:
            return CodeGrader(
                workers=rules.workers,
                seconds=rules.code_seconds,
                growth_bytes=rules.memory_bytes,
                options=rules.options,
            )
        if name not in rules.verifiers and name != rules.function:
            raise DataContractError(
                f"verifier {name!r} of a row: expected one of {', '.join(rules.names)}",
                "name reward functions for rows with reward.verifiers",
            )
        return FunctionGrader(
            find_function(rules.verifiers.get(name, rules.function)),
            pass_threshold=rules.pass_threshold,
            workers=rules.workers,
            timeout_seconds=rules.timeout_seconds,
            growth_bytes=rules.memory_bytes,
            batch_rows=rules.batch_rows,
            batch_timeout_seconds=rules.batch_timeout_seconds,
        )

    def close(self) -> None:
        """Stop every process."""
        for grader in self._graders.values():
            grader.close()


class _MathGrader:
    """The verifier of answers behind the rows' golds."""

    def __init__(self, rules: GraderRules) -> None:
        self._pool = VerifierPool(
            rules.workers, rules.timeout_seconds, rules.memory_bytes, options=rules.options
        )

    def grade(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
        return self._pool.grade_batch(
            [
                (text, str(problem.get("gold") or ""), problem.get("answer_type"))
                for text, problem in zip(texts, problems, strict=True)
            ]
        )

    def close(self) -> None:
        self._pool.close()


def used_functions(rules: GraderRules) -> Iterable[str]:
    """Where the user's functions stand, the default's first."""
    default = [rules.function] if rules.function not in ("", *BUILT_IN) else []
    return [*default, *rules.verifiers.values()]
