"""Verdicts from reward functions: per sample in a pool, per batch in a process of its own."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from grpo_core.errors import ServiceError
from grpo_core.rewards.dispatch import Dispatcher, Reply, Request
from grpo_core.rewards.functions.reference import FunctionRef
from grpo_core.rewards.nursery import Crew
from grpo_core.rewards.verdict import Label, Verdict, reward_of

Problem = Mapping[str, Any]
PROBLEM_FIELDS: Final = (
    "prompt_id",
    "text",
    "gold",
    "solution",
    "answer_type",
    "source",
    "verifier",
    "tests",
)
"""What a reward function always finds in a problem, None where there is none."""
_SAMPLE: Final = "function"
_BATCH: Final = "batch"


class FunctionGrader:
    """Calls one reward function in processes that can be killed.

    Args:
        function: What to call.
        pass_threshold: Least number that counts as correct.
        workers: Most processes of a function that is called per sample.
        timeout_seconds: Wall-clock limit of one call per sample.
        growth_bytes: Memory that a call per sample may take beyond what importing the function
            took.
        batch_rows: Most samples of one call per batch.
        batch_timeout_seconds: Wall-clock limit of one call per batch.
    """

    def __init__(
        self,
        function: FunctionRef,
        *,
        pass_threshold: float,
        workers: int,
        timeout_seconds: float,
        growth_bytes: int,
        batch_rows: int,
        batch_timeout_seconds: float,
    ) -> None:
        self.function = function
        self.pass_threshold = pass_threshold
        self._batch_rows = batch_rows
        settings = {**function.settings(), "growth_bytes": growth_bytes}
        if function.per == "sample":
            kind, limit, seconds = _SAMPLE, workers, timeout_seconds
        else:
            kind, limit, seconds = _BATCH, 1, batch_timeout_seconds
        self._seconds = seconds
        self._dispatcher = Dispatcher({kind: Crew(limit, kind, settings)}, {kind: seconds})

    def grade(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
        """Return one verdict a completion, order kept.

        A call that raises, hangs or gives nothing costs its own samples a null reward only.

        Raises:
            ServiceError: The function cannot be imported; carries the reason.
        """
        try:
            return self._grade(texts, problems)
        except ServiceError as error:
            raise ServiceError(
                f"reward function {self.function.text!r} cannot be imported: {error.message}",
                "try: grpo grade --selftest FUNCTION",
            ) from error

    def _grade(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
        problems = [{**dict.fromkeys(PROBLEM_FIELDS), **problem} for problem in problems]
        if self.function.per == "sample":
            requests = [
                Request(_SAMPLE, {"completion": text, "problem": problem})
                for text, problem in zip(texts, problems, strict=True)
            ]
            return [self._verdict(reply, reply.body) for reply in self._dispatcher.ask(requests)]
        return [
            verdict
            for start in range(0, len(texts), self._batch_rows)
            for verdict in self._grade_batch(
                texts[start : start + self._batch_rows], problems[start : start + self._batch_rows]
            )
        ]

    def _grade_batch(self, texts: Sequence[str], problems: Sequence[Problem]) -> list[Verdict]:
        message = {"completions": list(texts), "problems": list(problems)}
        (reply,) = self._dispatcher.ask([Request(_BATCH, message)])
        if reply.body is None or "batch" not in reply.body:
            return [self._verdict(reply, reply.body)] * len(texts)
        return [self._verdict(reply, value) for value in reply.body["batch"]]

    def _verdict(self, reply: Reply, value: Mapping[str, Any] | None) -> Verdict:
        if value is None:
            if reply.failure == "timeout":
                why = f"no result after {self._seconds} s"
                return Verdict(Label.TIMEOUT, None, reason=why, seconds=reply.seconds)
            return _error("its process died twice", reply)
        if "error" in value:
            return _error(str(value["error"]), reply)
        if "verdict" in value:
            return _checked(value["verdict"], reply)
        number = value["value"]
        if number is None:
            return _error("it gave no reward", reply)
        if not math.isfinite(number):
            return _error(f"it gave {number}, expected a finite number", reply)
        label = Label.CORRECT if number >= self.pass_threshold else Label.WRONG
        return Verdict(label, number, reason=f"reward {number:g}", seconds=reply.seconds)

    def close(self) -> None:
        """Stop its processes."""
        self._dispatcher.close()


def _error(reason: str, reply: Reply) -> Verdict:
    text = f"the reward function failed: {reason}"
    return Verdict(Label.ERROR, None, reason=text, seconds=reply.seconds)


def _checked(given: Mapping[str, Any], reply: Reply) -> Verdict:
    """A Verdict that a function returned, or why it cannot be one."""
    if given["label"] not in list(Label):
        return _error(f"its verdict has the label {given['label']!r}", reply)
    label, reward = Label(given["label"]), given["reward_raw"]
    if (reward is None) != (reward_of(label) is None):
        return _error(f"its verdict {label} has the reward {reward}", reply)
    numbers = {"reward_raw": reward, **{name: given[name] for name in _SHARES}}
    for name, number in numbers.items():
        if number is None:
            continue
        is_share = name in _SHARES
        if not math.isfinite(number) or (is_share and not 0 <= number <= 1):
            wanted = "a number in [0, 1]" if is_share else "a finite number"
            return _error(f"its verdict has {name} {number}, expected {wanted}", reply)
    return Verdict(
        label=label,
        reward_raw=None if reward is None else float(reward),
        extracted=given["extracted"],
        candidates=tuple(map(str, given["candidates"])),
        reason=str(given["reason"]),
        seconds=reply.seconds,
        confidence=given["confidence"],
        share_passed=given["share_passed"],
    )


_SHARES: Final = ("confidence", "share_passed")
