"""The shipped problem sets: made by the generator, disjoint, and never shown to the warm start."""

import json
from itertools import islice
from pathlib import Path

import pytest

from grpo_core.tiny.batches import draw_demonstrations
from grpo_core.tiny.demonstrations import Carelessness
from grpo_core.tiny.problems import Problem
from grpo_core.tiny.splits import SPLIT_SIZES, draw_splits, normalised, to_jsonl, write_splits

PROMPTS = Path(__file__).parents[4] / "data" / "prompts"


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Problem]]:
    return draw_splits(seed=0)


def test_the_shipped_files_are_what_the_generator_makes(splits: dict[str, list[Problem]]) -> None:
    for split, problems in splits.items():
        assert (PROMPTS / f"{split}.jsonl").read_text(encoding="utf-8") == to_jsonl(problems)


def test_the_command_writes_the_shipped_bytes(tmp_path: Path) -> None:
    assert write_splits(tmp_path, seed=0) == SPLIT_SIZES
    for split in SPLIT_SIZES:
        name = f"{split}.jsonl"
        assert (tmp_path / name).read_bytes() == (PROMPTS / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "test.jsonl",
        "train.jsonl",
        "validation.jsonl",
    ]


def test_rows_are_gsm8k(splits: dict[str, list[Problem]]) -> None:
    for row in map(json.loads, (PROMPTS / "test.jsonl").read_text().splitlines()):
        assert set(row) == {"question", "answer"}
        assert row["question"].endswith("?")
        assert row["answer"].rsplit("\n#### ", 1)[1].isdigit()


def test_no_problem_occurs_twice(splits: dict[str, list[Problem]]) -> None:
    problems = [problem for split in splits.values() for problem in split]
    assert len(problems) == sum(SPLIT_SIZES.values())
    assert len({normalised(problem.question) for problem in problems}) == len(problems)
    assert len({problem.signature for problem in problems}) == len(problems)


def test_every_split_has_every_length(splits: dict[str, list[Problem]]) -> None:
    for problems in splits.values():
        lengths = [len(problem.lines) for problem in problems]
        assert all(lengths.count(length) > len(problems) / 8 for length in (1, 2, 3, 4))


@pytest.mark.slow
def test_another_seed_makes_other_problems(splits: dict[str, list[Problem]]) -> None:
    assert draw_splits(seed=1)["test"] != splits["test"]


@pytest.mark.slow
def test_the_warm_start_sees_no_shipped_problem(splits: dict[str, list[Problem]]) -> None:
    shipped = {normalised(problem.question) for split in splits.values() for problem in split}
    shown = islice(draw_demonstrations(Carelessness(), seed=0), 3000)
    assert not any(
        normalised(item.prompt).startswith(question)
        for item in shown
        for question in (normalised(item.prompt).rsplit("?", 1)[0] + "?",)
        if question in shipped
    )
