"""A batch that is short of groups with signal draws as many further prompts as are missing."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from grpo_core.config import load_config
from grpo_core.errors import ConfigError
from grpo_core.prompts.curriculum import GroupPlan
from grpo_core.rewards import Verdict, grade
from grpo_core.training.collect import PlannedGroup
from grpo_core.training.refill import SampledBatch, sample_batch

ANSWERS: Mapping[str, Sequence[str]] = {
    "mixed": ("#### 1", "#### 2"),
    "solved": ("#### 1", "#### 1"),
    "unsolved": ("#### 2", "#### 2"),
}


class ScriptedCollector:
    """Answers each prompt as its name says, and remembers what was asked for."""

    def __init__(self) -> None:
        self.rounds: list[list[str]] = []

    def sample(self, groups: Sequence[PlannedGroup], *, step: int) -> dict[str, list[Any]]:
        self.rounds.append([group.plan.prompt_id for group in groups])
        texts = [text for name in self.rounds[-1] for text in ANSWERS[name.split("-")[0]]]
        return {
            "text": texts,
            "completion_token_ids": [[1, 2] for _ in texts],
            "max_completion_tokens": [8] * len(texts),
        }

    def grade(self, groups: Sequence[PlannedGroup], completions: Any) -> list[Verdict]:
        return [grade(text, "1") for text in completions["text"]]


def _group(number: int, prompt_id: str) -> PlannedGroup:
    problem = {"text": "?", "gold": "1", "solution": "#### 1", "source": "s", "answer_type": None}
    return PlannedGroup(GroupPlan(number, prompt_id, None, (None, None)), problem)


def _fill(first: Sequence[str], reserve: Sequence[str], rounds: int) -> tuple[SampledBatch, Any]:
    config = load_config("tiny", overrides=["train.group_size=2", f"filter.refill_rounds={rounds}"])
    collector = ScriptedCollector()

    def draw_more(count: int, taken: Collection[str], number: int) -> list[PlannedGroup]:
        left = [name for name in reserve if name not in taken][:count]
        return [_group(number + n, name) for n, name in enumerate(left)]

    groups = [_group(n, name) for n, name in enumerate(first)]
    batch = sample_batch(config, collector, groups, draw_more, step=1)  # type: ignore[arg-type]
    return batch, collector.rounds


def test_without_refill_the_first_draw_is_the_batch() -> None:
    batch, rounds = _fill(["solved-1", "mixed-1"], ["mixed-2"], rounds=0)
    assert rounds == [["solved-1", "mixed-1"]]
    assert len(batch.groups) == 2


def test_each_round_draws_what_is_missing_and_no_more() -> None:
    batch, rounds = _fill(
        ["solved-1", "mixed-1", "unsolved-1"],
        ["solved-2", "mixed-2", "mixed-3", "mixed-4"],
        rounds=5,
    )
    assert rounds == [
        ["solved-1", "mixed-1", "unsolved-1"],
        ["solved-2", "mixed-2"],
        ["mixed-3"],
    ]
    assert [group.plan.group for group in batch.groups] == list(range(6))
    assert len(batch.completions["text"]) == len(batch.verdicts) == 12
    assert batch.completions["text"][6:10] == [*ANSWERS["solved"], *ANSWERS["mixed"]]


def test_rounds_are_bounded() -> None:
    _, rounds = _fill(["solved-1"], [f"solved-{n}" for n in range(2, 20)], rounds=3)
    assert len(rounds) == 4


def test_a_batch_stays_short_when_the_prompts_run_out() -> None:
    batch, rounds = _fill(["solved-1", "solved-2"], ["mixed-1"], rounds=9)
    assert rounds == [["solved-1", "solved-2"], ["mixed-1"]]
    assert len(batch.groups) == 3


def test_refill_needs_the_filter() -> None:
    with pytest.raises(ConfigError, match="refill_rounds"):
        load_config("tiny", overrides=["filter.refill_rounds=1", "filter.zero_variance=false"])
