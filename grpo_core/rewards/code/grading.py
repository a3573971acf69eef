"""Verdicts on programs: all tests passed is correct, the share passed is stored."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from grpo_core.errors import DataContractError
from grpo_core.rewards.code.program import find_program
from grpo_core.rewards.code.row_tests import read_tests
from grpo_core.rewards.dispatch import Dispatcher, Reply, Request
from grpo_core.rewards.nursery import Crew
from grpo_core.rewards.options import VerifierOptions
from grpo_core.rewards.verdict import Label, Verdict, reward_of

Problem = Mapping[str, Any]
_KIND: Final = "code"
_GRACE_SECONDS: Final = 10.0
"""What the checking process may take beyond the time of the tests, until it counts as hung."""


class CodeGrader:
    """Runs the program of each completion against the tests of its row.

    A program that is too slow, too large or crashes is wrong, not undecided: it was told its
    limits. Undecided is only what went wrong on our side.

    Args:
        workers: Programs that are checked at the same time.
        seconds: Wall-clock limit of all tests of one program together.
        growth_bytes: Memory of a program beyond the interpreter's.
        options: Says what of a completion is visible.
    """

    def __init__(
        self, *, workers: int, seconds: float, growth_bytes: int, options: VerifierOptions
    ) -> None:
        self._options = options
        settings = {"seconds": seconds, "growth_bytes": growth_bytes}
        self._dispatcher = Dispatcher(
            {_KIND: Crew(workers, _KIND, settings)}, {_KIND: seconds + _GRACE_SECONDS}
        )

    def grade(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
        """Return one verdict a completion, order kept; `problems` have `tests` as JSON."""
        verdicts: dict[int, Verdict] = {}
        requests: dict[int, Request] = {}
        for index, (text, problem) in enumerate(zip(texts, problems, strict=True)):
            program, how = find_program(text, self._options)
            try:
                tests = read_tests(problem.get("tests") or "")
            except DataContractError as error:
                verdicts[index] = Verdict(Label.GOLD_UNPARSEABLE, None, reason=error.message)
                continue
            if program is None:
                verdicts[index] = Verdict(Label.UNPARSEABLE, 0.0, reason=how)
            else:
                message = {"program": program, "tests": tests.message()}
                requests[index] = Request(_KIND, message)
        replies = self._dispatcher.ask(list(requests.values()))
        for (index, request), reply in zip(requests.items(), replies, strict=True):
            verdicts[index] = _verdict(str(request.message["program"]), reply)
        return [verdicts[index] for index in range(len(texts))]

    def close(self) -> None:
        """Stop its processes."""
        self._dispatcher.close()


def _verdict(program: str, reply: Reply) -> Verdict:
    if reply.body is None:
        label = Label.TIMEOUT if reply.failure == "timeout" else Label.ERROR
        why = f"the checking process {'hung' if reply.failure == 'timeout' else 'died twice'}"
        return Verdict(label, None, program, (program,), why, reply.seconds)
    results = [str(result) for result in reply.body["results"]]
    passed = results.count("")
    label = Label.CORRECT if passed == len(results) else Label.WRONG
    reason = f"{passed} of {len(results)} tests passed"
    failed = next((result for result in results if result), "")
    return Verdict(
        label,
        reward_of(label),
        program,
        (program,),
        f"{reason}; first failure: {failed}" if failed else reason,
        reply.seconds,
        share_passed=passed / len(results),
    )
